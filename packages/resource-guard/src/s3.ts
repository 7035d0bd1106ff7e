// The guard for one object in an S3-style store. Safety rests on one fact: state and value are one object, each
// write of it is conditional on the ETag it was decided on, and no ETag ever comes back.
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardCallOptions,
  type GuardDecision,
  GuardError,
  type GuardState,
  type RunOptions,
} from '@lockkeeper/fencing';
import { untilAborted } from './abort.ts';
import { DecidingGuard, type Step } from './deciding-guard.ts';
import { checkEffect, checkFlag, checkToken } from './options.ts';
import { Budget } from './s3/budget.ts';
import { commit, readRecord } from './s3/commit.ts';
import { type ErrorContext, make, missingRecord, notApplied } from './s3/errors.ts';
import { GuardedObject, type Plan, type Planner } from './s3/guarded-object.ts';
import { checkValue, Handle, type PutOptions, type S3Handle } from './s3/handle.ts';
import { checkOptions, type S3GuardOptions } from './s3/options.ts';
import { hasPassed, probe } from './s3/probe.ts';
import { type Put, PutQueue } from './s3/put-queue.ts';
import { type GuardRecord, nextRecord, type StoredRecord } from './s3/record.ts';
import { checkSender, ObjectStore, type S3Sender } from './s3/store.ts';
import { Turnstile } from './turnstile.ts';

export type { PutOptions, S3Handle } from './s3/handle.ts';
export type { S3GuardOptions } from './s3/options.ts';
export { type ParsedObject, parseGuardedObject } from './s3/parse.ts';
export type { S3Sender } from './s3/store.ts';

/** A guard whose effect is a new value of one object. */
export interface S3Guard extends Guard<S3Handle>, GuardAdmin {
  /**
   * Replaces the value, whatever it was: `run` with an effect that only puts, in one request where this guard
   * wrote last. Puts of one token that wait for each other become one write, in which the last one counts.
   * @throws {@link GuardError}
   */
  put(token: FencingToken, value: Uint8Array | string, options?: PutOptions & RunOptions): Promise<void>;

  /**
   * Makes the object unless it is there, and resolves with whether it made it. Call it at deployment, never
   * on the way to a claim: a lost object would come back knowing no token.
   * @throws {@link GuardError}
   */
  create(options?: GuardCallOptions): Promise<boolean>;

  /**
   * Tries whether the store enforces conditional writes and shows them to the next read. The first verb on a
   * client and bucket does it anyway, unless the option `probe` is `false`.
   * @throws {@link GuardError} `unavailable`, "conditional writes not enforced", where it does not.
   */
  probe(options?: GuardCallOptions): Promise<void>;
}

/**
 * A guard for one object in Amazon S3, or in a store that enforces `If-Match` and `If-None-Match` on PUT as S3
 * does and is read-after-write consistent. `@aws-sdk/client-s3` 3.700 or later must be installed.
 *
 * - **The object at `key`** is a line of JSON with token and write ids, then the value's bytes:
 *   {@link parseGuardedObject} takes it apart. Whoever writes it past the guard breaks it.
 * - **A run** reads the object, runs the effect, and writes once, after it, if the effect put something.
 *   One that puts nothing is judged at its beginning.
 * - **A claim** replaces the object, so every write prepared before fails, wherever it is by then. It waits
 *   for nobody; but writes that keep coming in between can hold it off until `timeoutMs`.
 * - **Runs of one holder overlap**, their writes do not: an effect that read the value, and was overtaken by
 *   another write of the same hold, fails with `retry`, nothing applied. One that only puts is put on top.
 * - **Outcomes**: after a lost reply, a conflict or a failed condition the object is read back, and the write
 *   ids in it tell whether the write was applied, a retry by the client included. `unknown` where it cannot be
 *   read back, or more than 24 writes came after.
 * - A signal that aborts before the write was sent rejects with its reason, after it with `unknown`.
 *
 * @param client - stays the caller's, its retries too.
 * @throws GuardError `invalid-option`
 */
export function s3Guard(client: S3Sender, options: S3GuardOptions): S3Guard {
  return new GuardOnS3(client, options);
}

class GuardOnS3 extends DecidingGuard implements S3Guard {
  readonly #options: ReturnType<typeof checkOptions>;
  readonly #store: ObjectStore;
  readonly #object: GuardedObject;
  /** Writes of this guard would only make each other fail: they take turns. */
  readonly #turnstile = new Turnstile();
  readonly #puts = new PutQueue(this.#turnstile, (put) => this.#carry(put));
  #probing: Promise<void> | undefined;

  constructor(client: S3Sender, options: S3GuardOptions) {
    const sender = checkSender(client);
    const checked = checkOptions(options);
    super(checked.resource);
    this.#options = checked;
    this.#store = new ObjectStore(sender, this.#options.bucket, this.#options.requestTimeoutMs);
    this.#object = new GuardedObject(this.#store, this.#options.createsMissing);
  }

  async run<T>(
    presented: FencingToken,
    effect: (handle: S3Handle) => T | Promise<T>,
    options: RunOptions = {},
  ): Promise<T> {
    const token = checkToken(presented);
    checkEffect(effect);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#options.requireClaim);
    const { signal } = options;
    const base = await this.#within(signal, token, (budget) => this.#enter(token, requireClaim, budget));
    const handle = new Handle(base.record.value);
    let result: T;
    try {
      result = await untilAborted((async () => effect(handle))(), signal);
    } finally {
      handle.end();
    }
    const value = handle.staged;
    if (value === undefined) return result;
    await this.#within(signal, token, async (budget) => {
      const leave = await this.#turnstile.enter('exclusive', budget.signal);
      const put = { token, value, requireClaim: true };
      await (handle.hasRead ? this.#writeOver(base, put, budget) : this.#write(put, budget)).finally(leave);
    });
    return result;
  }

  async put(
    presented: FencingToken,
    value: Uint8Array | string,
    options: PutOptions & RunOptions = {},
  ): Promise<void> {
    const token = checkToken(presented);
    const requireClaim = checkFlag('requireClaim', options.requireClaim, this.#options.requireClaim);
    const put = { token, value: checkValue(value, options), requireClaim };
    const lost = (reason: unknown) =>
      make('unknown', 'the wait for the write ended before it did', reason, this.#context(token));
    await this.#within(options.signal, token, (budget) => this.#puts.add(put, budget, lost));
  }

  async inspect(options: GuardCallOptions = {}): Promise<GuardState | undefined> {
    options.signal?.throwIfAborted();
    const budget = new Budget(this.#options.timeoutMs, options.signal);
    try {
      return (await this.#object.read(this.#context(undefined), budget))?.record.state;
    } finally {
      budget.close();
    }
  }

  async create(options: GuardCallOptions = {}): Promise<boolean> {
    return this.#within(options.signal, undefined, async (budget) => {
      const context = this.#context(undefined);
      for (;;) {
        if ((await readRecord(this.#store, budget, context)) !== undefined) return false;
        const done = await commit(
          this.#store,
          undefined,
          nextRecord(undefined, undefined, undefined),
          budget,
          context,
        );
        if (done.kind === 'applied') return true;
      }
    });
  }

  async probe(options: GuardCallOptions = {}): Promise<void> {
    options.signal?.throwIfAborted();
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined;
    });
    await untilAborted(this.#probing, options.signal);
  }

  /** Only its own time limits it: others may be waiting for it. */
  async #probe(): Promise<void> {
    const budget = new Budget(this.#options.timeoutMs, undefined);
    try {
      await probe(this.#store, budget, this.#context(undefined));
    } finally {
      budget.close();
    }
  }

  /** The object as it is now, for `token` to be judged by. */
  async #enter(token: FencingToken, requireClaim: boolean, budget: Budget): Promise<StoredRecord> {
    const context = this.#context(token);
    const base = await this.#object.read(context, budget);
    const first = this.#planRun(base?.record, token, requireClaim);
    if (first.kind === 'refuse') throw first.error;
    if (first.kind === 'keep' && base !== undefined) return base;
    // Newer than the state. Effects of older tokens may be at work beside this one: only a claim stops their writes.
    const leave = await this.#turnstile.enter('exclusive', budget.signal);
    try {
      const current = await this.#object.change(
        plannerOf(this.stepOf('claim', token, undefined).decide),
        context,
        budget,
      );
      // Applied, and perhaps overtaken before that was known.
      const second = this.#planRun(current?.record, token, true);
      if (second.kind === 'refuse') throw second.error;
      if (current === undefined) throw missingRecord('does not exist', context);
      return current;
    } catch (error) {
      const lost = error instanceof GuardError && error.code === 'unknown';
      throw lost ? make('unavailable', 'the effect did not run', error, context) : error;
    } finally {
      leave();
    }
  }

  /** In the place of what the effect read, and of nothing else. */
  async #writeOver(base: StoredRecord, put: Put, budget: Budget): Promise<void> {
    const context = this.#context(put.token);
    const plan = this.#planPut(base.record, put);
    if (plan.kind !== 'write') throw plan.error;
    const done = await this.#object.writeOver(base, plan.next, context, budget);
    if (done.kind === 'applied') return;
    const overtaken = this.#planPut(done.current?.record, put);
    if (overtaken.kind === 'refuse') throw overtaken.error;
    const what = 'another write came after what the effect had read; nothing was applied, run it again';
    throw make('retry', what, undefined, context);
  }

  /** In the place of whatever is there, as long as the token is in force. */
  #write(put: Put, budget: Budget): Promise<void> {
    return this.#object.write((record) => this.#planPut(record, put), this.#context(put.token), budget);
  }

  #carry(put: Put): Promise<void> {
    return this.#within(undefined, put.token, (budget) => this.#write(put, budget));
  }

  #planRun(record: GuardRecord | undefined, token: FencingToken, requireClaim: boolean): Plan {
    return planOf(decideGuard('run', this.resource, record?.state, token, { requireClaim }), record);
  }

  #planPut(
    record: GuardRecord | undefined,
    { token, value, requireClaim }: Put,
  ): Exclude<Plan, { kind: 'keep' }> {
    const decision = decideGuard('run', this.resource, record?.state, token, { requireClaim });
    if (decision.verdict === 'reject') return { kind: 'refuse', error: decision.error };
    return { kind: 'write', next: nextRecord(record, decision.next ?? record?.state, value) };
  }

  protected async take({ token, signal, decide }: Step): Promise<void> {
    await this.#within(signal, token, async (budget) => {
      const leave = await this.#turnstile.enter('exclusive', budget.signal);
      const taken = this.#object.change(plannerOf(decide), this.#context(token), budget);
      await taken.finally(leave);
    });
  }

  /** One verb: its time, its signal, and a store that is known to enforce conditions. */
  async #within<T>(
    signal: AbortSignal | undefined,
    token: FencingToken | undefined,
    body: (budget: Budget) => Promise<T>,
  ): Promise<T> {
    signal?.throwIfAborted();
    const budget = new Budget(this.#options.timeoutMs, signal);
    try {
      if (this.#options.probes && !hasPassed(this.#store)) await this.probe({ signal: budget.signal });
      return await body(budget);
    } catch (error) {
      if (error === budget.signal.reason && !budget.abandoned) {
        throw notApplied(error, 'the call did not get its turn in time', this.#context(token));
      }
      throw error;
    } finally {
      budget.close();
    }
  }

  #context(token: FencingToken | undefined): ErrorContext {
    return { resource: this.resource, bucket: this.#options.bucket, key: this.#options.key, token };
  }
}

function plannerOf(decide: Step['decide']): Planner {
  return (record) => planOf(decide(record?.state), record);
}

function planOf(decision: GuardDecision, record: GuardRecord | undefined): Plan {
  if (decision.verdict === 'reject') return { kind: 'refuse', error: decision.error };
  if (decision.next === undefined) return { kind: 'keep' };
  return { kind: 'write', next: nextRecord(record, decision.next, record?.value) };
}
