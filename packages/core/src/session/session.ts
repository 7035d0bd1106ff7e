import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../clock.ts';
import { type CallOptions, type Coordinator, DEFAULT_CALL_TIMEOUT_MS } from '../coordinator/coordinator.ts';
import { LockkeeperError, type LossCause } from '../errors.ts';
import type { Logger } from '../options.ts';
import { grantedLease, type LeaseEvent, type LeaseState, stepLease } from './lease-machine.ts';
import { SlotTable } from './slot-table.ts';

export interface SessionOptions {
  readonly coordinator: Coordinator;
  readonly ttlMs: number;
  readonly marginMs: number | undefined;
  readonly lineage: string;
  readonly logger: Logger;
}

/** What depends on a session: a hold, a wait, an ending that is not confirmed yet. */
export interface SessionMember {
  /** Called once, when the session is lost, or at once on joining a lost one; never after the member left. */
  onSessionLost(cause: LossCause): void;
}

const FIRST_RETRY_MS = 50;

/**
 * One kept-alive lease, driven by the lease machine. It serves any number of holds and waits, renews as
 * long as it lives, and is never used again once it is lost.
 *
 * Loss is computed from the clock whenever somebody asks: after a stalled event loop the very next line of
 * user code sees it, before any timer had a chance to fire.
 */
export class Session {
  readonly lease: bigint;
  readonly lineage: string;
  readonly slots: SlotTable = new SlotTable();
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #marginMs: number | undefined;
  readonly #members = new Set<SessionMember>();
  #state: LeaseState;
  #deadlineTimer: Timer | undefined;
  #renewTimer: Timer | undefined;
  #renewAt = 0;
  #renewing: Promise<void> | undefined;
  #failures = 0;
  #revoking: Promise<void> | undefined;

  /**
   * Grants a lease under an id drawn here, so that one whose reply was lost can be revoked by name.
   * @throws LockkeeperError as the coordinator reports it, or the signal's reason.
   */
  static async open(options: SessionOptions, call: CallOptions): Promise<Session> {
    const { coordinator, ttlMs, marginMs } = options;
    const lease = randomLeaseId();
    const sentAt = coordinator.clock.now();
    try {
      const granted = await coordinator.grant({ lease, ttlMs }, call);
      return new Session(options, lease, grantedLease(sentAt, granted.ttlMs, marginMs));
    } catch (error) {
      const certainlyNotGranted = error instanceof LockkeeperError && error.outcome === 'rejected';
      if (!certainlyNotGranted) {
        // Nobody renews it, so it ends by itself after its TTL; revoking only makes that sooner.
        coordinator.revoke(lease).catch((cause) => {
          options.logger.debug(
            { lease: lease.toString(16), err: cause },
            'an unconfirmed lease is left to expire',
          );
        });
      }
      throw error;
    }
  }

  private constructor(options: SessionOptions, lease: bigint, state: LeaseState) {
    this.lease = lease;
    this.lineage = options.lineage;
    this.#coordinator = options.coordinator;
    this.#clock = options.coordinator.clock;
    this.#logger = options.logger;
    this.#marginMs = options.marginMs;
    this.#state = state;
    this.#renewAt = state.confirmedAt + this.#renewalInterval();
    this.#armTimers();
  }

  /** The TTL the server granted last, in milliseconds. */
  get ttlMs(): number {
    return this.#state.ttlMs;
  }

  /**
   * How long one try of a request on this lease may take: short enough that a member which does not answer
   * leaves time for another within the TTL.
   */
  get attemptTimeoutMs(): number {
    return Math.min(Math.max(this.ttlMs / 3, 1_000), DEFAULT_CALL_TIMEOUT_MS);
  }

  /** Consults the clock first. */
  get standing(): 'held' | 'suspect' | 'lost' {
    const state = this.#look();
    return state.phase === 'live' ? state.standing : 'lost';
  }

  isLost(): boolean {
    return this.#look().phase === 'lost';
  }

  /** Why it was lost; `undefined` while it lives. Consults the clock first. */
  get lossCause(): LossCause | undefined {
    const state = this.#look();
    return state.phase === 'lost' ? state.cause : undefined;
  }

  /** Milliseconds until the deadline, 0 when lost. Consults the clock first. */
  remainingMs(): number {
    const state = this.#look();
    return state.phase === 'live' ? state.deadline - this.#clock.now() : 0;
  }

  /** One sentence on how the session ended, for error messages. */
  describeLoss(): string {
    const state = this.#look();
    if (state.phase === 'live') return 'not lost';
    const silent = ((state.lostAt - state.confirmedAt) / 1_000).toFixed(1);
    return `${state.cause}: last renewal confirmed ${silent} s earlier, ttlMs ${state.ttlMs}`;
  }

  join(member: SessionMember): void {
    const { lossCause } = this;
    this.#members.add(member);
    if (lossCause !== undefined) member.onSessionLost(lossCause);
    else if (this.#members.size === 1) this.#armTimers();
  }

  leave(member: SessionMember): void {
    if (!this.#members.delete(member) || this.#members.size > 0) return;
    if (this.#state.phase === 'lost') void this.#revoke();
    else this.#armTimers();
  }

  /** Ends the session for a reason that was learnt elsewhere. */
  end(cause: LossCause): void {
    this.#step({ type: 'ended', cause, now: this.#clock.now() });
  }

  /** One renewal now, or the one that is under way. Resolves whatever it brings: ask `remainingMs()`. */
  renewNow(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
      this.#armTimers();
    });
    return this.#renewing;
  }

  /** Ends the session and revokes its lease, which deletes every key that is left on it. */
  async close(): Promise<void> {
    this.end('closed');
    this.#members.clear();
    await this.#revoke();
  }

  async #renew(): Promise<void> {
    const sentAt = this.#clock.now();
    try {
      const { ttlMs } = await this.#coordinator.renew(this.lease, { timeoutMs: this.ttlMs / 6 });
      this.#failures = 0;
      this.#renewAt = sentAt + this.#renewalInterval();
      this.#step({ type: 'confirmed', sentAt, ttlMs, now: this.#clock.now() });
    } catch (error) {
      this.#logger.warn({ lease: this.lease.toString(16), err: error }, 'a lease renewal failed');
      this.#failures += 1;
      const backOff = Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), this.ttlMs / 6);
      this.#renewAt = this.#clock.now() + backOff * (0.75 + Math.random() / 4);
      this.#step({ type: 'renewal-failed', now: this.#clock.now() });
    }
  }

  /** A third of the TTL leaves room for two more tries; the jitter keeps many sessions from marching in step. */
  #renewalInterval(): number {
    return (this.ttlMs / 3) * (0.9 + Math.random() / 10);
  }

  #look(): LeaseState {
    return this.#step({ type: 'looked', now: this.#clock.now() });
  }

  #step(event: LeaseEvent): LeaseState {
    const { state, change } = stepLease(this.#state, event, this.#marginMs);
    this.#state = state;
    if (change !== undefined)
      this.#logger.info({ lease: this.lease.toString(16), change, state }, `session ${change}`);
    if (change === 'lost' && state.phase === 'lost') this.#onLost(state.cause);
    return state;
  }

  #onLost(cause: LossCause): void {
    this.#disarmTimers();
    const members = [...this.#members];
    // The lease is revoked only once the last of them has left: revoking it under running work would give
    // away the margin.
    if (members.length === 0) void this.#revoke();
    for (const member of members) member.onSessionLost(cause);
  }

  /** Best effort, once: what cannot be revoked expires, since nobody renews it any more. */
  #revoke(): Promise<void> {
    this.#revoking ??= this.#coordinator.revoke(this.lease).catch((error) => {
      if (error instanceof LockkeeperError && error.code === 'lease-not-found') return;
      this.#logger.debug(
        { lease: this.lease.toString(16), err: error },
        'a lease could not be revoked and is left to expire',
      );
    });
    return this.#revoking;
  }

  /** The timers keep the process alive only while somebody depends on the session. */
  #armTimers(): void {
    this.#disarmTimers();
    if (this.#state.phase === 'lost') return;
    const now = this.#clock.now();
    const ref = this.#members.size > 0;
    this.#deadlineTimer = this.#clock.setTimer(this.#state.deadline - now, () => this.#onDeadline(), { ref });
    if (this.#renewing === undefined) {
      this.#renewTimer = this.#clock.setTimer(this.#renewAt - now, () => void this.renewNow(), { ref });
    }
  }

  #onDeadline(): void {
    // A timer may fire a fraction of a millisecond early.
    if (this.#look().phase === 'live') this.#armTimers();
  }

  #disarmTimers(): void {
    this.#deadlineTimer?.cancel();
    this.#renewTimer?.cancel();
  }
}

/** Positive and below 2^63, as etcd wants them; never 0, which asks etcd to choose. */
function randomLeaseId(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n;
}
