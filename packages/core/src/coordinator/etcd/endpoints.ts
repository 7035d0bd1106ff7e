import type { Clock } from '../../clock.ts';
import type { LockkeeperError } from '../../errors.ts';
import type { AbortSignalLike } from '../../signals.ts';
import { duration } from '../../validation.ts';
import type { CallOptions, EndpointHealth } from '../coordinator.ts';
import { type Attempt, Endpoint, type Send } from './endpoint.ts';
import { type Failure, toError } from './failure.ts';
import { Login, type Token } from './login.ts';
import type { ResolvedEtcdOptions } from './options.ts';
import type { Bounds, PendingCalls } from './pending-calls.ts';

/** How a call may use its time. */
export interface CallPlan {
  /** For messages. */
  readonly what: string;
  /**
   * Among how many members a call divides its time. 1 for what must not be done twice: there only a try
   * that certainly did nothing is followed by another.
   */
  readonly tries: number;
  /** Whether a member without a leader shall refuse at once. */
  readonly requireLeader?: boolean | undefined;
}

/** A member that is slower to connect goes on connecting in the background while the next one is asked. */
const CONNECT_LIMIT_MS = 1_000;
/** Between two rounds over all members when none could serve a read, as during an election. */
const ROUND_PAUSE_MS = 100;

/**
 * All members, and the one that is asked at present: the same until it fails, then the next. A call never
 * takes longer than its limit, and is sent twice only where its plan allows that or the first copy certainly
 * did nothing.
 */
export class Endpoints {
  readonly #all: readonly Endpoint[];
  readonly #clock: Clock;
  readonly #pending: PendingCalls;
  readonly #login: Login | undefined;
  readonly #callTimeoutMs: number;
  readonly #onFailure: (endpoint: Endpoint) => void;
  #current: number = 0;

  /** @param onFailure told of every member that could not serve a call. */
  constructor(options: ResolvedEtcdOptions, pending: PendingCalls, onFailure: (endpoint: Endpoint) => void) {
    const { addresses, auth, clock, callTimeoutMs } = options;
    this.#all = addresses.map((address) => new Endpoint(address, { ...options, pending }));
    this.#clock = clock;
    this.#pending = pending;
    this.#login = auth && new Login(auth, clock, callTimeoutMs);
    this.#callTimeoutMs = callTimeoutMs;
    this.#onFailure = onFailure;
  }

  get current(): Endpoint {
    // biome-ignore lint/style/noNonNullAssertion: the list is not empty and the index is kept within it
    return this.#all[this.#current]!;
  }

  health(): readonly EndpointHealth[] {
    const { current } = this;
    return this.#all.map((endpoint) => {
      return { name: endpoint.name, connected: endpoint.connected, current: endpoint === current };
    });
  }

  async call<T>(plan: CallPlan, options: CallOptions | undefined, send: Send<T>): Promise<T> {
    const limitMs = duration('timeoutMs', options?.timeoutMs ?? this.#callTimeoutMs, { min: 0 });
    const signal = options?.signal;
    const until = this.#clock.now() + limitMs;
    const shareMs = this.#all.length > 1 ? limitMs / plan.tries : limitMs;
    let round: Failure[] = [];
    for (;;) {
      const endpoint = this.current;
      const attempt = await this.#tryAt(endpoint, plan, { until, shareMs, signal }, send);
      if (attempt.ok) return attempt.value;

      const { failure } = attempt;
      if (failure.kind === 'refused') throw toError(failure);
      this.moveOn(endpoint);
      if (failure.kind === 'unsure' && plan.tries === 1) throw toError(failure);
      round.push(failure);
      if (round.length >= this.#all.length) {
        // Members that are there but cannot serve may be electing a leader; where none is there, none comes soon.
        if (!round.some(({ kind, code }) => kind === 'unsure' && code === 'unreachable'))
          throw exhausted(plan, round);
        const leftMs = until - this.#clock.now();
        if (leftMs <= ROUND_PAUSE_MS) throw exhausted(plan, round);
        await this.#pending.pause(ROUND_PAUSE_MS, signal);
        round = [];
      } else if (until <= this.#clock.now()) throw exhausted(plan, round);
    }
  }

  /** Connects, and logs in where there is somebody to log in. What fails here was `unsent` or `refused`. */
  async prepare(endpoint: Endpoint, bounds: Bounds): Promise<Attempt<Token>> {
    const until = this.#clock.now() + bounds.limitMs;
    const connectMs = this.#all.length > 1 ? Math.min(CONNECT_LIMIT_MS, bounds.limitMs) : bounds.limitMs;
    const offline = await endpoint.connect({ ...bounds, limitMs: connectMs });
    if (offline !== undefined) return { ok: false, failure: offline };
    const login = this.#login;
    if (login === undefined) return { ok: true, value: undefined };
    const limitMs = Math.max(0, until - this.#clock.now());
    const waited = await this.#pending.wait(undefined, { ...bounds, limitMs }, () => login.token(endpoint));
    if (waited.how === 'done') return waited.value;
    if (waited.how === 'failed') throw waited.error;
    const text = `login on ${endpoint.name}: no answer within ${Math.round(bounds.limitMs)} ms`;
    return { ok: false, failure: { kind: 'unsent', code: 'unreachable', text, cause: undefined } };
  }

  /** The next use of this member logs in anew. */
  async forgetToken(endpoint: Endpoint, token: Token): Promise<void> {
    await this.#login?.forget(endpoint, token);
  }

  /** Asks another member from now on, if there is one and this one is still asked. */
  moveOn(failed: Endpoint): void {
    if (this.current === failed) this.#current = (this.#current + 1) % this.#all.length;
    this.#onFailure(failed);
  }

  close(): void {
    for (const endpoint of this.#all) endpoint.close();
  }

  async #tryAt<T>(endpoint: Endpoint, plan: CallPlan, time: TryTime, send: Send<T>): Promise<Attempt<T>> {
    for (let repeat = false; ; repeat = true) {
      let token: Token;
      if (this.#login !== undefined || !endpoint.connected) {
        const ready = await this.prepare(endpoint, this.#bounds(time));
        if (!ready.ok) return ready;
        token = ready.value;
      }
      const headers = { token, requireLeader: plan.requireLeader };
      const attempt = await endpoint.attempt(plan.what, this.#bounds(time), headers, send);
      if (attempt.ok || attempt.failure.kind !== 'stale-login') return attempt;
      if (repeat || this.#login === undefined)
        return { ok: false, failure: { ...attempt.failure, kind: 'refused' } };
      await this.forgetToken(endpoint, token);
    }
  }

  #bounds({ until, shareMs, signal }: TryTime): Bounds {
    return { limitMs: Math.max(0, Math.min(shareMs, until - this.#clock.now())), signal };
  }
}

interface TryTime {
  readonly until: number;
  readonly shareMs: number;
  readonly signal: AbortSignalLike | undefined;
}

function exhausted({ what }: CallPlan, failures: readonly Failure[]): LockkeeperError {
  const [first] = failures;
  // What may have been done once may have been done, whatever the other members said.
  const worst = failures.find(({ kind }) => kind === 'unsure') ?? first;
  if (worst === undefined) throw new TypeError('no failure to report');
  if (failures.length === 1) return toError(worst);
  return toError(
    worst,
    `${what}: no member of etcd could serve it: ${failures.map(({ text }) => text).join('; ')}`,
  );
}
