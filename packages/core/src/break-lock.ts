import { FencingToken, GuardError } from '@lockkeeper/fencing';
import type { CallOptions, Compare, Coordinator, KeyValue } from './coordinator/coordinator.ts';
import { LockkeeperError } from './errors.ts';
import { asRange, type OperatorHost, textOf } from './inspect.ts';
import { isDowngraded, readContender } from './lock/acquisition.ts';
import { BackOff } from './lock/back-off.ts';
import {
  belongTogether,
  checkKind,
  isInTheWay,
  type LockKind,
  type LockQueue,
  type Mode,
  queueOf,
} from './lock-kind.ts';
import type { Logger } from './options.ts';
import { type Sealable, sealGuards } from './seal-guards.ts';
import { AbortScope } from './signals.ts';
import { checkMethods, checkObject, duration, invalidOption, optionalSignal } from './validation.ts';

export interface BreakOptions {
  /** Of the holder or of a waiter, as `inspect` tells it: the token, or its text. */
  readonly token: FencingToken | string;
  /**
   * Everything that the holder writes to. They are sealed for exactly this token before its key is deleted, so that no
   * write of it that comes late is applied. With none (`[]`) such a write is applied, until the next holder has claimed.
   *
   * Of a reader only the newest is bound by its seal: a late write of an older one is applied until the next writer
   * has claimed, as readers do not fence each other.
   */
  readonly guards: readonly Sealable[];
  /** Default `lock`. */
  readonly kind?: LockKind | undefined;
  /** How long the guards may take to seal, in milliseconds. Default 5,000. */
  readonly sealTimeoutMs?: number | undefined;
  /** Deletes the key although a guard could not be sealed, and tells which in `unsealed`. Default `false`. */
  readonly force?: boolean | undefined;
  /** How long etcd may take before the seal, and again after it, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Stops it, with the signal's reason; what was sent may still take effect. */
  readonly signal?: AbortSignal | undefined;
}

/** `not-found`: nobody stands in the queue by that token (any more). */
export type BreakAnswer =
  | {
      readonly outcome: 'broken';
      /** The resources of the guards that could not be sealed; empty unless `force` was asked for. */
      readonly unsealed: readonly string[];
    }
  | { readonly outcome: 'not-found' };

/** Takes the lock, or the place in its queue, from exactly the contender that `token` names. */
export async function breakLock(
  host: OperatorHost,
  name: string,
  options: BreakOptions,
): Promise<BreakAnswer> {
  checkObject('options', options);
  const queue = queueOf(host.layout, checkKind('kind', options.kind ?? 'lock'), name);
  const { force = false } = options;
  if (typeof force !== 'boolean') throw invalidOption('force', force, 'expected a boolean');
  const sealing = {
    guards: checkGuards(options.guards),
    timeoutMs: duration('sealTimeoutMs', options.sealTimeoutMs ?? 5_000, { min: 0 }),
    force,
  };
  const token = checkToken(options.token);
  const timeoutMs = duration('timeoutMs', options.timeoutMs ?? 10_000, { min: 0 });
  using scope = new AbortScope().follow(host.closing).follow(optionalSignal('signal', options.signal));
  const breaking = new Breaking(host, queue, token, timeoutMs, scope.signal);
  return breaking.run((tokens) => sealGuards(host.options.clock, sealing, name, tokens, scope.signal));
}

/** The contender that the token names. */
interface Found {
  readonly kv: KeyValue;
  readonly details: KeyValue;
  /** What it may write with: the token, and that of the reader that a writer may become. */
  readonly tokens: readonly FencingToken[];
  /** Somebody it waits for; `undefined`: it holds, and will for as long as its key stands. */
  readonly blocker: KeyValue | undefined;
}

class Breaking {
  readonly #coordinator: Coordinator;
  readonly #queue: LockQueue;
  readonly #lineageKey: string;
  readonly #logger: Logger;
  readonly #token: FencingToken;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  #until: number;
  /** Whether a deletion was sent whose reply never came. */
  #unanswered = false;

  constructor(
    { options: { coordinator, logger }, layout }: OperatorHost,
    queue: LockQueue,
    token: FencingToken,
    timeoutMs: number,
    signal: AbortSignal,
  ) {
    this.#coordinator = coordinator;
    this.#queue = queue;
    this.#lineageKey = layout.lineage;
    this.#logger = logger;
    this.#token = token;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.#until = coordinator.clock.now() + timeoutMs;
  }

  /** @param seal - called at most once, and only for a holder. @returns of `seal`: who did not. */
  async run(seal: (tokens: readonly FencingToken[]) => Promise<readonly string[]>): Promise<BreakAnswer> {
    let unsealed: readonly string[] | undefined;
    for (;;) {
      const found = await this.#untilAnswered((call) => this.#find(call));
      // What a lost reply left open is answered by the key's absence; nothing speaks for another cause.
      if (found === undefined) return this.#unanswered ? this.#broken(unsealed) : { outcome: 'not-found' };
      // A waiter has written nothing; its seal would refuse all who came before it.
      if (found.blocker === undefined && unsealed === undefined) {
        unsealed = await seal(found.tokens);
        this.#until = this.#coordinator.clock.now() + this.#timeoutMs;
      }
      const deleted = await this.#untilAnswered((call) => this.#delete(found, call));
      if (deleted) return this.#broken(unsealed);
    }
  }

  #broken(unsealed: readonly string[] = []): BreakAnswer {
    const fields = { lock: this.#queue.name, kind: this.#queue.kind, token: this.#token, unsealed };
    this.#logger.info(fields, 'a lock was broken');
    return { outcome: 'broken', unsealed };
  }

  async #find(call: CallOptions): Promise<Found | undefined> {
    const { revision, lineage } = this.#token;
    const { span } = this.#queue;
    const sort = { by: 'createRevision', order: 'descend' } as const;
    const reply = await this.#coordinator.txn(
      {
        compare: [],
        success: [
          { op: 'range', key: this.#lineageKey },
          // Ours puts one key a revision into a queue; another program may put several.
          { op: 'range', ...span, maxCreateRevision: revision, sort, limit: 10 },
        ],
        failure: [],
      },
      call,
    );
    const [lineageRead, candidates] = reply.results.map(asRange);
    if (textOf(lineageRead?.kvs[0]) !== lineage) return undefined;
    for (const kv of candidates?.kvs ?? []) {
      const found = kv.createRevision === revision ? await this.#identify(kv, call) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async #identify(kv: KeyValue, call: CallOptions): Promise<Found | undefined> {
    const { revision, acquisition } = this.#token;
    const { key } = kv;
    const detailsKey = this.#queue.detailsKeyOf(key);
    const details =
      detailsKey === key ? kv : (await this.#coordinator.range({ key: detailsKey }, call)).kvs[0];
    if (details === undefined || !belongTogether(kv, details)) return undefined;
    if (readContender(details).acquisition !== acquisition) return undefined;
    const mode = this.#queue.modeOf(key);
    const sort = { by: 'createRevision', order: 'descend' } as const;
    const rivals = { ...this.#queue.rivalsOf(mode), maxCreateRevision: revision - 1n, sort, limit: 1 };
    const [last] = (await this.#coordinator.range({ ...rivals, keysOnly: mode !== 'read' }, call)).kvs;
    const blocker = last !== undefined && isInTheWay(last, mode) ? last : undefined;
    return { kv, details, tokens: this.#tokensOf(mode, isDowngraded(kv)), blocker };
  }

  /** A writer's guards may know it as a reader before etcd does. */
  #tokensOf(mode: Mode | undefined, becameReader: boolean): readonly FencingToken[] {
    const inMode = (shared: boolean) => new FencingToken({ ...this.#token, shared });
    if (mode === undefined) return [inMode(false)];
    return mode === 'read' || becameReader ? [inMode(true)] : [inMode(false), inMode(true)];
  }

  /** Deletes exactly what was found. A copy that arrives late can touch nothing else. */
  async #delete({ kv, details, blocker }: Found, call: CallOptions): Promise<boolean> {
    const standsAs = ({ key, createRevision }: KeyValue): Compare => {
      return { key, target: 'createRevision', is: '=', to: createRevision };
    };
    try {
      const { succeeded } = await this.#coordinator.txn(
        {
          compare: [
            { key: this.#lineageKey, target: 'value', is: '=', to: this.#token.lineage },
            standsAs(kv),
            { key: details.key, target: 'modRevision', is: '=', to: details.modRevision },
            { key: details.key, target: 'value', is: '=', to: details.value },
            // Whoever waits must not have become the holder meanwhile, whose guards would have to be sealed.
            ...(blocker === undefined ? [] : [standsAs(blocker)]),
          ],
          success: [...new Set([kv.key, details.key])].map((key) => ({ op: 'delete', key })),
          // A transaction that decides something holds a range, so that it is answered with a quorum.
          failure: [{ op: 'range', key: kv.key, keysOnly: true }],
        },
        call,
      );
      return succeeded;
    } catch (error) {
      if (!(error instanceof LockkeeperError) || error.outcome === 'unknown') this.#unanswered = true;
      throw error;
    }
  }

  /**
   * Asks again while etcd cannot be reached, within the time. A deletion that was carried out already finds nothing
   * when it is repeated.
   */
  async #untilAnswered<T>(ask: (call: CallOptions) => Promise<T>): Promise<T> {
    const { clock } = this.#coordinator;
    const backOff = new BackOff(clock);
    for (;;) {
      this.#signal.throwIfAborted();
      const leftMs = Math.max(0, this.#until - clock.now());
      try {
        return await ask({ signal: this.#signal, timeoutMs: Math.min(leftMs, Math.max(500, leftMs / 2)) });
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
        if (clock.now() >= this.#until) throw this.#unreachable(error);
      }
      await backOff.wait(this.#signal);
    }
  }

  #unreachable(cause: LockkeeperError): LockkeeperError {
    const outcome = this.#unanswered ? 'unknown' : 'rejected';
    const known = this.#unanswered ? 'may or may not be broken' : 'is not broken';
    const text = `lock "${this.#queue.name}": token ${this.#token} ${known}: ${cause.message}`;
    return new LockkeeperError('unreachable', text, { cause, outcome });
  }
}

function checkGuards(guards: unknown): readonly Sealable[] {
  if (!Array.isArray(guards))
    throw invalidOption('guards', guards, 'expected an array of guards, or [] for none');
  for (const [index, guard] of guards.entries()) checkMethods(`guards[${index}]`, guard, ['seal']);
  return [...guards];
}

/** A token of another installed copy is checked part by part. */
function checkToken(token: unknown): FencingToken {
  try {
    if (typeof token === 'string') return FencingToken.parse(token);
    if (typeof token === 'object' && token !== null) return new FencingToken(token as FencingToken);
  } catch (error) {
    if (error instanceof GuardError) throw invalidOption('token', token, error.message);
    throw error;
  }
  throw invalidOption('token', token, 'expected a FencingToken or its text');
}
