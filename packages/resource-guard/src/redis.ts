// The guard for keys in Redis and Valkey. Safety rests on one fact: a single script checks the token and carries
// the effect's commands out, and Redis runs nothing else meanwhile.
import {
  FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  GuardError,
  type GuardState,
  type RebaseOptions,
  type RunOptions,
  refusal,
} from '@lockkeeper/fencing';
import { untilAborted } from './abort.ts';
import { checkEffect, checkFlag, checkMs, checkResource, checkToken, describe, invalid } from './options.ts';
import { Recent } from './recent.ts';
import type { RedisClient } from './redis/client.ts';
import { Effect, type RedisTransaction, type Word } from './redis/effect.ts';
import { type ErrorContext, make, replyCode } from './redis/errors.ts';
import { checkPrefix, checkTag, type KeyRule, tagOf, wrong } from './redis/keys.ts';
import { type Answer, Line, type SendOptions, type Wait } from './redis/line.ts';
import { checkChoice, checkWait, type RedisGuardOptions } from './redis/options.ts';
import { parseStoredState } from './stored-state.ts';

export type { IoRedisClient, NodeRedisClient, NodeRedisCluster, RedisClient } from './redis/client.ts';
export type { RedisReply, RedisTransaction, RedisValue } from './redis/effect.ts';
export type { RedisGuardOptions } from './redis/options.ts';

/** A guard whose effects are commands of one script. */
export interface RedisGuard extends Guard<RedisTransaction>, GuardAdmin {
  /** The key of the guard's record. It never expires; deleting it is how a resource is given up for good. */
  readonly recordKey: string;
  /** The key for `name` in this guard's hash slot: `{resource}:name`. */
  key(name: string): string;
  /**
   * Creates the guard's record: a step of deployment, once a resource, **not of every start** of a service,
   * which would hide a loss. Resolves with `false` where it was there already.
   * @throws GuardError
   */
  create(options?: GuardCallOptions): Promise<boolean>;
}

/**
 * A guard for keys in Redis 5 or later, or Valkey, over a client or cluster of `ioredis` 5 or `redis` (node-redis).
 *
 * - **An effect reads now and writes at the end**: its commands are queued, and leave in one script that checks
 *   the token first. An effect that throws has changed nothing. It may have been called although its run is
 *   refused then, so do nothing else in it that matters.
 * - **A script has no rollback**: where a command fails inside it, those before it stay applied and those after
 *   it are not. The run is `unavailable` where it was the first, else `unknown`, and says which.
 * - **A claim waits for nobody**: the script of an older token that comes after it is refused.
 * - **Outcomes**: `unknown` where the reply was lost. A client may send a script again when it reconnects
 *   (ioredis does): it is carried out once all the same. `unavailable`: Redis refused, nothing was applied.
 * - **Durable as Redis is**: `appendfsync everysec` can lose the last second, asynchronous replication the last
 *   writes before a fail-over, claims included. See `wait`.
 *
 * A `run` alone accepts a late write that arrives before the new holder's first request: claim at hand-over.
 *
 * @param client - stays the caller's: the guard connects only one that waits for its first command.
 * @throws GuardError `invalid-option`
 */
export function redisGuard(client: RedisClient, options: RedisGuardOptions): RedisGuard {
  return new GuardOnRedis(client, options);
}

/** One holder writes at a time, but readers hold together. */
const REMEMBERED_TOKENS = 100;

class GuardOnRedis implements RedisGuard {
  readonly resource: string;
  readonly recordKey: string;
  readonly #line: Line;
  readonly #requireClaim: boolean;
  readonly #missing: 'refuse' | 'create';
  readonly #eviction: 'refuse' | 'accept';
  readonly #wait: Wait | undefined;
  readonly #timeoutMs: number;
  readonly #tag: string;
  readonly #rule: KeyRule;
  /** Tokens that were in force when this guard last heard of them: their next runs need not ask before their effects. */
  readonly #inForce = new Recent(REMEMBERED_TOKENS);

  constructor(client: unknown, options: RedisGuardOptions) {
    this.#line = Line.of(client);
    this.resource = checkResource(options?.resource);
    this.#requireClaim = checkFlag('requireClaim', options.requireClaim, false);
    this.#missing = checkChoice('missing', options.missing, ['refuse', 'create']);
    this.#eviction = checkChoice('eviction', options.eviction, ['refuse', 'accept']);
    this.#timeoutMs = checkMs('timeoutMs', options.timeoutMs, 10_000);
    this.#wait = checkWait(options.wait, this.#line.link.isCluster);
    const ownTag = tagOf(this.resource);
    this.#tag = checkTag(options.hashTag, ownTag);
    const name = `${checkPrefix(options.prefix)}{${this.#tag}}`;
    this.recordKey = this.#tag === ownTag ? name : `${name}:${this.resource}`;
    const slots = checkChoice('keySlots', options.keySlots, ['same', 'any']);
    if (slots === 'any' && this.#line.link.isCluster)
      throw invalid('keySlots', slots, 'expected "same" on a cluster');
    const tag = slots === 'same' ? this.#tag : undefined;
    const fromKeys = this.#line.link.keyPrefix;
    this.#rule = { resource: this.resource, record: this.recordKey, tag, fromKeys };
  }

  key(name: string): string {
    if (typeof name !== 'string' || name === '')
      throw wrong(`name is ${describe(name)}; expected non-empty text`, this.#rule);
    return `{${this.#tag}}:${name}`;
  }

  async create(options: GuardCallOptions = {}): Promise<boolean> {
    await this.#checkEviction(options.signal);
    const [verdict] = await this.#ask('create', undefined, [], options.signal);
    return verdict === 'created';
  }

  async claim(presented: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    const token = checkToken(presented);
    await this.#checkEviction(options.signal);
    await this.#ask('claim', token, [], options.signal);
    this.#inForce.add(`${token}`);
  }

  async seal(presented: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    const token = checkToken(presented);
    await this.#checkEviction(options.signal);
    await this.#ask('seal', token, [], options.signal);
    this.#inForce.delete(`${token}`);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: RedisTransaction) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#requireClaim);
    const { signal } = options;
    signal?.throwIfAborted();
    if (!this.#inForce.has(`${token}`)) await this.#enter(token, requireClaim, signal);

    const reading = { signal, timeoutMs: this.#timeoutMs, context: this.#context(token) };
    const queue = new Effect(this.#rule, (key, words) => this.#line.read(key, words, reading));
    let value: T;
    try {
      value = await untilAborted(settle(effect, queue), signal);
    } finally {
      queue.end();
    }
    signal?.throwIfAborted();
    await this.#apply(token, queue, requireClaim, signal);
    return value;
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    const [verdict, ...words] = await this.#ask('inspect', undefined, [], options.signal);
    // A client may be set to give bytes.
    const [current, sealed, writer] = words.map(String);
    if (verdict === 'missing' || !current) return undefined;
    return parseStoredState(this.resource, `${current} ${sealed} ${writer}`.trimEnd());
  }

  async rebase(presented: FencingToken, options: RebaseOptions): Promise<void> {
    const token = checkToken(presented);
    const from = checkToken(options?.from);
    if (token.lineage === from.lineage)
      throw wrong(`from is ${from}, of the same lineage as the token ${token}; claim instead`, this.#rule);
    await this.#ask('rebase', token, [`${from}`], options.signal);
  }

  /** Before the effect of a token that this guard has not seen in force, so that it reads what it may rely on. */
  async #enter(token: FencingToken, requireClaim: boolean, signal: AbortSignal | undefined): Promise<void> {
    await this.#checkEviction(signal);
    await this.#ask('enter', token, [requireClaim ? '1' : '0'], signal);
    this.#inForce.add(`${token}`);
  }

  async #apply(
    token: FencingToken,
    queue: Effect,
    requireClaim: boolean,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const context = this.#context(token);
    let answer: readonly unknown[];
    try {
      answer = await this.#ask('apply', token, queue.words, signal, queue.keys);
    } catch (error) {
      this.#inForce.delete(`${token}`);
      const code = error instanceof GuardError ? error.code : undefined;
      const isForgotten = code === 'unclaimed' || (code === 'not-migrated' && this.#missing === 'create');
      if (!isForgotten || requireClaim) throw error;
      throw make('retry', 'Redis no longer knew of this token', error, context);
    }
    switch (answer[0]) {
      case 'ok':
        queue.answered(answer.slice(1));
        return;
      case 'repeated':
        return;
      case 'failed': {
        const done = Number(answer[1]);
        const cause = new Error(String(answer[2]));
        const what = `${queue.describe(done)} failed in the script`;
        if (done === 0) throw make('unavailable', `${what} and nothing was applied`, cause, context);
        throw make(
          'unknown',
          `${what}; what was queued before it was applied, the rest was not`,
          cause,
          context,
        );
      }
      default: {
        const what =
          'the connection was lost and the client sent it again after it had failed, or in another order';
        throw make('unknown', what, undefined, context);
      }
    }
  }

  /** Sends one verb. Refusals and failures reject; what is left depends on the verb. */
  async #ask(
    verb: string,
    token: FencingToken | undefined,
    args: readonly Word[],
    signal: AbortSignal | undefined,
    keys: readonly string[] = [this.recordKey],
  ): Promise<[verdict: string, ...rest: unknown[]]> {
    const context = this.#context(token);
    // An entry may advance the guard, as a claim may be repeated: its run has done nothing yet.
    const harmless = verb === 'inspect' || verb === 'enter';
    const wait = harmless ? undefined : this.#wait;
    const options: SendOptions = { signal, timeoutMs: this.#timeoutMs, wait, context, harmless };
    const third = verb === 'apply' ? 'run' : this.#missing;
    const call = { keys, verb, token: token === undefined ? '' : `${token}`, third, rest: args };
    const answer = await this.#line.script(call, options);
    return this.#judge(verb, token, answer, context) as [string, ...unknown[]];
  }

  #judge(
    verb: string,
    token: FencingToken | undefined,
    { words, mayBeCopy }: Answer,
    context: ErrorContext,
  ): readonly unknown[] {
    const verdict = String(words[0]);
    const current = () => (words[1] ? FencingToken.parse(String(words[1])) : undefined);
    switch (verdict) {
      case 'stale-token':
      case 'sealed':
      case 'conflicting-token':
      case 'foreign-lineage':
      case 'unclaimed':
      case 'not-confirmed': {
        const error = refusal(verdict, this.resource, token as FencingToken, current());
        // A copy may be refused after the first was carried out: the script knows, unless it had to forget.
        const isOpen = verdict === 'not-confirmed' || (words[2] !== undefined && String(words[2]) !== '');
        if (!mayBeCopy || !isOpen) throw error;
        throw make('unknown', 'the connection was lost and the client asked again', error, context);
      }
      case 'missing': {
        if (verb === 'inspect' && this.#missing === 'create') return [verdict];
        const error = make('not-migrated', this.#missingText(), undefined, context);
        if (verb !== 'apply' || !mayBeCopy) throw error;
        throw make('unknown', 'the connection was lost and the client sent it again', error, context);
      }
      case 'format': {
        const what = `${this.recordKey} has the format ${describe(String(words[1]))}, which this version cannot read`;
        throw make('not-migrated', what, undefined, context);
      }
      default:
        return [verdict, ...words.slice(1)];
    }
  }

  #missingText(): string {
    const what = `there is no record ${this.recordKey}: never created, or lost (evicted, flushed, restored, failed over)`;
    return `${what}. Never created: call guard.create() once, at deployment. Lost: make sure that no older holder is at work, then create() and claim with the newest token; missing: "create" does so unasked and gives up this protection`;
  }

  /** A record that may be evicted would stop the service one day, or with `missing: 'create'` protect nothing. */
  async #checkEviction(signal: AbortSignal | undefined): Promise<void> {
    if (this.#line.evictionChecked || this.#eviction === 'accept') return;
    const context = this.#context(undefined);
    const options = { signal, timeoutMs: this.#timeoutMs, context };
    const read = this.#line.read(this.recordKey, ['info', 'memory'], options).catch((error: unknown) => {
      if (replyCode(error) === undefined) throw error;
      return '';
    });
    const info = String(await read);
    const policy = /^maxmemory_policy:(allkeys-\S+)/m.exec(info)?.[1];
    if (policy !== undefined && !/^maxmemory:0\r?$/m.test(info)) {
      const what = `maxmemory-policy of the server is ${policy}, which may evict the guard's record`;
      const ways = 'expected noeviction or volatile-*, or the option eviction: "accept"';
      throw make('unavailable', `${what}; ${ways}`, undefined, context);
    }
    this.#line.evictionChecked = true;
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, token };
  }
}

async function settle<T>(
  effect: (handle: RedisTransaction) => T | Promise<T>,
  handle: RedisTransaction,
): Promise<T> {
  return effect(handle);
}
