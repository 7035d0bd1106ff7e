import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../clock.ts';
import {
  type CallOptions,
  type Compare,
  type Coordinator,
  DEFAULT_CALL_TIMEOUT_MS,
} from '../coordinator/coordinator.ts';
import { LockkeeperError, type LossCause } from '../errors.ts';
import type { Logger } from '../options.ts';
import type { AbortSignalLike } from '../signals.ts';
import { publish } from '../telemetry.ts';
import {
  grantedLease,
  isQuiet,
  isSafe,
  type LeaseChange,
  type LeaseEvent,
  type LeaseState,
  stepLease,
} from './lease-machine.ts';
import { SlotTable } from './slot-table.ts';

export interface SessionOptions {
  readonly coordinator: Coordinator;
  readonly ttlMs: number;
  readonly marginMs: number | undefined;
  /** The history that the session belongs to, and the key that names it. */
  readonly lineage: string;
  readonly lineageKey: string;
  readonly logger: Logger;
  /** Takes over work that goes on after the session could not be opened, and never rejects. */
  readonly inBackground: (work: Promise<unknown>) => void;
}

/** What depends on a session: a hold, a wait, an ending that is not confirmed yet. */
export interface SessionMember {
  /** @internal Called once, when the session is lost, or at once on joining a lost one; never after the member left. */
  onSessionLost(cause: LossCause): void;
}

const FIRST_RETRY_MS = 50;

/** Each is a small key that etcd keeps with the lease; unreachable members alone cause them. */
const MAX_LEFT_BEHIND = 1_000;

/** A timer that fires this late is worth a report; a busy process is late by some tens of milliseconds. */
const STALL_MS = 200;

/**
 * One kept-alive lease, driven by the lease machine. It serves any number of holds and waits, renews as
 * long as it lives, and is never used again once it is lost.
 *
 * Loss is computed from the clock whenever somebody asks: after a stalled event loop the very next line of
 * user code sees it, before any timer had a chance to fire.
 */
export class Session {
  readonly lease: bigint;
  /** As it stands in keys: etcd's clients do not pad it. */
  readonly leaseHex: string;
  readonly lineage: string;
  /** True while etcd is in the history that this session began in. */
  readonly lineageCompare: Compare;
  readonly slots: SlotTable = new SlotTable();
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  readonly #lineageKey: string;
  readonly #logger: Logger;
  readonly #marginMs: number | undefined;
  readonly #members = new Set<SessionMember>();
  #state: LeaseState;
  #deadlineTimer: Timer | undefined;
  #renewTimer: Timer | undefined;
  #renewAt = 0;
  #lagMs = 0;
  #renewing: Promise<void> | undefined;
  #failures = 0;
  #probedAt = 0;
  #leftBehind = 0;
  #retired = false;
  #revoking: Promise<void> | undefined;

  /**
   * Grants a lease under an id drawn here, so that one whose reply was lost can be revoked by name.
   * @throws LockkeeperError as the coordinator reports it, or the signal's reason.
   */
  static async open(
    options: SessionOptions,
    call: CallOptions & { readonly signal: AbortSignalLike },
  ): Promise<Session> {
    const { coordinator, ttlMs, marginMs } = options;
    const lease = randomLeaseId();
    const sentAt = coordinator.clock.now();
    const wallAtSend = coordinator.clock.wallTime();
    try {
      const granted = await coordinator.grant({ lease, ttlMs }, call);
      return new Session(options, lease, grantedLease(sentAt, wallAtSend, granted.ttlMs, marginMs));
    } catch (error) {
      // The reason of an abort says nothing about the grant.
      const refused =
        !call.signal.aborted && error instanceof LockkeeperError && error.outcome === 'rejected';
      if (!refused) options.inBackground(abandonLease(options, lease));
      throw error;
    }
  }

  private constructor(options: SessionOptions, lease: bigint, state: LeaseState) {
    this.lease = lease;
    this.leaseHex = lease.toString(16);
    this.lineage = options.lineage;
    this.lineageCompare = { key: options.lineageKey, target: 'value', is: '=', to: options.lineage };
    this.#coordinator = options.coordinator;
    this.#clock = options.coordinator.clock;
    this.#lineageKey = options.lineageKey;
    this.#logger = options.logger;
    this.#marginMs = options.marginMs;
    this.#state = state;
    this.#renewAt = state.confirmedAt + this.#renewalInterval();
    this.#probedAt = state.confirmedAt;
    publish('lockkeeper:session:opened', () => ({
      session: this.id,
      ttlMs: this.ttlMs,
      lineage: this.lineage,
    }));
    this.#armTimers();
  }

  /** The lease in hex, as `etcdctl` prints it. */
  get id(): string {
    return this.leaseHex.padStart(16, '0');
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
    if (state.phase === 'lost') return 'lost';
    return state.doubt === undefined ? 'held' : 'suspect';
  }

  /** Neither lost nor in doubt about how much time has passed. Consults the clock first. */
  isSafe(): boolean {
    return isSafe(this.#look());
  }

  isLost(): boolean {
    return this.#look().phase === 'lost';
  }

  /** Why it was lost; `undefined` while it lives. Consults the clock first. */
  get lossCause(): LossCause | undefined {
    const state = this.#look();
    return state.phase === 'lost' ? state.cause : undefined;
  }

  /** Milliseconds until the deadline; 0 when lost, or when the clock is in doubt. Consults the clock first. */
  remainingMs(): number {
    const state = this.#look();
    return state.phase === 'live' && isSafe(state) ? state.deadline - this.#clock.now() : 0;
  }

  /** How long ago the last confirmed grant or renewal was sent, in milliseconds. */
  get unconfirmedForMs(): number {
    return this.#clock.now() - this.#state.confirmedAt;
  }

  /** How late the last renewal was sent, or how late the one that is due is by now; in milliseconds. */
  get renewalLagMs(): number {
    if (this.#renewing !== undefined || this.isLost()) return this.#lagMs;
    return Math.max(this.#lagMs, this.#clock.now() - this.#renewAt);
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
    else if (this.#retired) void this.close();
    else this.#armTimers();
  }

  /** Counts a key that stays in etcd for as long as the lease lives. */
  leaveBehind(): void {
    this.#leftBehind += 1;
  }

  /** Whether so much is left behind that the next acquisition had better begin with a fresh lease. */
  get isWorn(): boolean {
    return this.#leftBehind >= MAX_LEFT_BEHIND;
  }

  /** Nobody new joins; it ends by itself when the last member leaves. */
  retire(): void {
    this.#retired = true;
    if (this.#members.size === 0) void this.close();
  }

  /** Ends the session for a reason that was learnt elsewhere. */
  end(cause: LossCause): void {
    this.#step({ type: 'ended', cause, ...this.#moment() });
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
  async close(call: CallOptions = {}): Promise<void> {
    this.end('closed');
    this.#members.clear();
    await this.#revoke(call);
  }

  async #renew(): Promise<void> {
    const sentAt = this.#clock.now();
    const lagMs = Math.max(0, sentAt - this.#renewAt);
    this.#lagMs = lagMs;
    try {
      // A sixth for a member that does not answer leaves another sixth for the next one.
      const { ttlMs } = await this.#coordinator.renew(this.lease, { timeoutMs: this.ttlMs / 3 });
      this.#failures = 0;
      this.#renewAt = sentAt + this.#renewalInterval();
      this.#step({ type: 'confirmed', sentAt, ttlMs, ...this.#moment() });
      // Sent before the clock came into doubt, it proved nothing.
      if (!this.isSafe()) this.#renewAt = this.#clock.now();
      publish('lockkeeper:session:renewed', () => {
        const roundTripMs = this.#clock.now() - sentAt;
        return { session: this.id, roundTripMs, lagMs, remainingMs: this.remainingMs() };
      });
      if (sentAt - this.#probedAt >= this.ttlMs) void this.#probe(sentAt);
    } catch (error) {
      this.#failures += 1;
      const backOff = Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), this.ttlMs / 6);
      this.#renewAt = this.#clock.now() + backOff * (0.75 + this.#clock.random() / 4);
      this.#step({ type: 'renewal-failed', sentAt, refused: isRefusal(error), ...this.#moment() });
      this.#logger.warn({ session: this.id, err: error }, 'a lease renewal failed');
      publish('lockkeeper:session:renewal-failed', () => {
        return { session: this.id, error, remainingMs: this.remainingMs() };
      });
    }
  }

  /**
   * Once a TTL, whether this is still the same history: a renewal does not tell, and a holder that does
   * nothing else would not learn that etcd's data were wiped or restored.
   */
  async #probe(now: number): Promise<void> {
    this.#probedAt = now;
    try {
      const { kvs } = await this.#coordinator.range(
        { key: this.#lineageKey },
        { timeoutMs: this.attemptTimeoutMs },
      );
      if (kvs[0] === undefined || new TextDecoder().decode(kvs[0].value) !== this.lineage)
        this.end('history-regressed');
    } catch (error) {
      this.#logger.debug(
        { session: this.id, err: error },
        'could not ask for the lineage, asking again later',
      );
    }
  }

  /** A third of the TTL leaves room for two more tries; the jitter keeps many sessions from marching in step. */
  #renewalInterval(): number {
    return (this.ttlMs / 3) * (0.9 + this.#clock.random() / 10);
  }

  #look(): LeaseState {
    // As most looks find it; every acquire takes several.
    if (isQuiet(this.#state, this.#clock.now(), this.#clock.wallTime(), this.#marginMs)) return this.#state;
    return this.#step({ type: 'looked', ...this.#moment() });
  }

  #moment(): { now: number; wall: number } {
    return { now: this.#clock.now(), wall: this.#clock.wallTime() };
  }

  #step(event: LeaseEvent): LeaseState {
    const { state, change } = stepLease(this.#state, event, this.#marginMs);
    this.#state = state;
    if (change !== undefined) this.#onChange(change, state);
    return state;
  }

  /** Acts first and logs last, so that no logger can come between a loss and those who must know. */
  #onChange(change: LeaseChange, state: LeaseState): void {
    const isTrouble = state.phase === 'lost' ? state.cause !== 'closed' : state.doubt !== undefined;
    if (state.phase === 'lost') this.#onLost(state.cause);
    else this.#onDoubt(state);
    this.#logger[isTrouble ? 'warn' : 'info']({ session: this.id, ...state }, `session ${change}`);
  }

  #onDoubt({ doubt, deadline }: Extract<LeaseState, { phase: 'live' }>): void {
    const remainingMs = Math.max(0, deadline - this.#clock.now());
    if (doubt?.of === 'clock') {
      this.#renewAt = this.#clock.now();
      this.#armTimers();
    }
    if (doubt === undefined)
      publish('lockkeeper:session:recovered', () => ({ session: this.id, remainingMs }));
    else publish('lockkeeper:session:suspect', () => ({ session: this.id, doubt: doubt.of, remainingMs }));
  }

  #onLost(cause: LossCause): void {
    this.#disarmTimers();
    publish('lockkeeper:session:lost', () => ({
      session: this.id,
      cause,
      unconfirmedForMs: this.unconfirmedForMs,
    }));
    const members = [...this.#members];
    // The lease is revoked only once the last of them has left: revoking it under running work would give
    // away the margin.
    if (members.length === 0) void this.#revoke();
    for (const member of members) member.onSessionLost(cause);
  }

  /** Best effort, once: what cannot be revoked expires, since nobody renews it any more. */
  #revoke(call: CallOptions = {}): Promise<void> {
    this.#revoking ??= this.#coordinator.revoke(this.lease, call).catch((error) => {
      if (error instanceof LockkeeperError && error.code === 'lease-not-found') return;
      this.#logger.debug(
        { session: this.id, err: error },
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
      this.#renewTimer = this.#clock.setTimer(this.#renewAt - now, () => this.#onRenewalDue(), { ref });
    }
  }

  #onRenewalDue(): void {
    const stalledMs = this.#clock.now() - this.#renewAt;
    if (stalledMs >= STALL_MS) {
      this.#logger.warn({ session: this.id, stalledMs }, 'the event loop stood still');
      publish('lockkeeper:process:stalled', () => ({ session: this.id, stalledMs }));
    }
    void this.renewNow();
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

/** Nobody renews it, so it ends by itself after its TTL; revoking only makes that sooner. */
async function abandonLease({ coordinator, logger }: SessionOptions, lease: bigint): Promise<void> {
  try {
    await coordinator.revoke(lease);
  } catch (error) {
    logger.debug({ session: lease.toString(16), err: error }, 'an unconfirmed lease is left to expire');
  }
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof LockkeeperError &&
    (error.code === 'unauthenticated' || error.code === 'permission-denied')
  );
}

/** Positive and below 2^63, as etcd wants them; never 0, which asks etcd to choose. */
function randomLeaseId(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n;
}
