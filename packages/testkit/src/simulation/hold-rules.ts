import type { Hold, LockkeeperError, LossCause, ReleaseAnswer } from '@lockkeeper/core';
import type { Attempt } from './acquire-rules.ts';
import { describeHeld, type Held, isOver, lossOf } from './held.ts';
import type { Contender, Observer } from './observer.ts';
import type { SimulatedProcess } from './process.ts';
import type { World } from './world.ts';

/** Within this time the first of a queue is granted, and tampering noticed, where nothing is disturbed. */
export const PROMPT_MS = 1_000;
/** What was overdue when a process goes on after a stop, is told within this time. */
const CATCH_UP_MS = 5;

/**
 * What a hold tells of itself, against what is true of its key in etcd: granted in turn, standing only with
 * its key, lost for the cause that is named, released when it says so.
 */
export class HoldRules {
  granted = 0;
  lost = 0;
  readonly #world: World;
  readonly #observer: Observer;
  readonly #calm: boolean;
  readonly #report: (kind: string, message: string) => void;
  /** Whatever was granted, by `key@token`. */
  readonly #all = new Map<string, Held>();
  /** Neither lost nor released as far as we know. */
  readonly #standing = new Set<Held>();

  constructor(
    world: World,
    observer: Observer,
    calm: boolean,
    report: (kind: string, message: string) => void,
  ) {
    this.#world = world;
    this.#observer = observer;
    this.#calm = calm;
    this.#report = report;
  }

  of({ key, createRevision }: Contender): Held | undefined {
    return this.#all.get(`${key}@${createRevision}`);
  }

  onGranted(attempt: Attempt, hold: Hold): Held {
    const { revision, acquisition } = hold.token;
    const key = hold.compare()[0]?.key ?? '';
    const lease = this.#observer.leaseOf(key, revision);
    const ends = { settledAt: undefined, lostAt: undefined };
    const held = { attempt, hold, signal: hold.signal, key, lease, token: revision, ...ends };
    this.#all.set(`${key}@${revision}`, held);
    this.#standing.add(held);
    this.granted += 1;
    const told = describeHeld(held);
    if (this.#observer.creatorOf(key, revision) !== acquisition) {
      this.#report('false-token', `${told}: no key of it was created at revision ${revision}`);
    }
    if (!this.#observer.wasHead(key, revision)) {
      this.#report('granted-out-of-turn', `${told}: its key was never the first of the queue`);
    }
    if (hold.standing !== 'lost' && hold.remainingMs() < hold.ttlMs / 3 - 1) {
      const left = Math.round(hold.remainingMs());
      this.#report('stale-grant', `${told}: granted with ${left} ms of ttlMs ${hold.ttlMs} left`);
    }
    return held;
  }

  onReleased(held: Held, { outcome, sealed }: ReleaseAnswer): void {
    const told = describeHeld(held);
    if (outcome === 'already-lost') {
      const loss = lossOf(held.hold);
      if (loss === undefined) this.#report('false-loss', `${told}: told already-lost, but it names no loss`);
      else this.#checkCause(held, loss);
      return;
    }
    if (sealed === undefined && held.attempt.visit.claims) {
      this.#report('not-sealed', `${told}: released without an answer about its seal`);
    }
    if (outcome === 'released' && this.#observer.isIntact(held.key, held.token)) {
      this.#report('false-release', `${told}: told released, but its key stands in etcd`);
    }
  }

  onRemoved(contender: Contender, actor: string): void {
    const held = this.of(contender);
    if (held === undefined || isOver(held) || held.attempt.seat.closing) return;
    if (actor !== held.attempt.process.name) return;
    this.#report('deleted-standing-key', `${actor} deleted the key of ${describeHeld(held)}, which stands`);
  }

  onRevoked(lease: bigint, process: SimulatedProcess): void {
    for (const held of this.#standing) {
      const { attempt, settledAt } = held;
      if (held.lease !== lease || settledAt !== undefined || attempt.seat.closing) continue;
      if (!this.#observer.isIntact(held.key, held.token)) continue;
      this.#report(
        'revoked-under-work',
        `${process.name} revoked the lease of ${describeHeld(held)} while its work runs`,
      );
    }
  }

  /** The code of the process looks at its holds. */
  lookBy(process: SimulatedProcess): void {
    for (const held of this.#standing) {
      if (held.attempt.process === process && !isOver(held)) void held.hold.standing;
    }
  }

  look(): void {
    const byName = new Map<string, Held[]>();
    for (const held of this.#standing) {
      const { process, visit } = held.attempt;
      if (process.isDead || isOver(held)) {
        this.#standing.delete(held);
        continue;
      }
      if (!process.isRunning) continue;
      if (held.signal.aborted) this.#onSignal(held);
      // Holds are asked only where their answer could be wrong: asking changes what their timers find.
      if (this.#observer.isIntact(held.key, held.token)) {
        byName.set(visit.lock, [...(byName.get(visit.lock) ?? []), held]);
      } else this.#lookAtKeyless(held);
    }
    for (const [name, holds] of byName) if (holds.length > 1) this.#lookAtRivals(name, holds);
  }

  #lookAtRivals(name: string, holds: readonly Held[]): void {
    const rivals = holds.filter(({ hold }) => hold.standing === 'held' || hold.standing === 'suspect');
    if (rivals.length > 1)
      this.#report('two-holders', `lock ${name}: ${rivals.map(describeHeld).join(' and ')}`);
  }

  #lookAtKeyless(held: Held): void {
    const signalled = held.signal.aborted;
    const { standing } = held.hold;
    if (standing === 'lost') this.#onLost(held, signalled);
    else if (standing === 'released') held.settledAt ??= this.#world.now;
    else this.#onFalseStanding(held, standing);
  }

  #onLost(held: Held, signalled: boolean): void {
    const { process } = held.attempt;
    const tampered = this.#observer.tamperingWith(held.key, held.token);
    // Timers do not run while their clock stands still.
    const mustTell = tampered === undefined && !process.wasSuspended;
    if (mustTell && !signalled && this.#world.now - process.runningSince > CATCH_UP_MS) {
      this.#report('silent-loss', `${describeHeld(held)}: its key is gone, but its signal had not told`);
    }
    this.#lose(held);
  }

  #onFalseStanding(held: Held, standing: 'held' | 'suspect'): void {
    const tampered = this.#observer.tamperingWith(held.key, held.token);
    if (tampered !== undefined) {
      if (!this.#calm || this.#world.now - tampered.at <= PROMPT_MS) return;
      const late = `${PROMPT_MS} ms after its key was ${tampered.how}`;
      this.#report('unnoticed', `${describeHeld(held)}: told ${standing} ${late}`);
      return;
    }
    // Its monotonic clock stood still: suspect is all that it can know.
    if (standing === 'suspect' && held.attempt.process.wasSuspended) return;
    const by = this.#observer.removalOf(held.key, held.token);
    this.#report(
      'stands-without-key',
      `${describeHeld(held)}: told ${standing}, but its key is gone from etcd (${by})`,
    );
  }

  #onSignal(held: Held): void {
    const { code, lossCause } = held.signal.reason as LockkeeperError;
    if (code === 'closed' && held.attempt.seat.closing) return;
    this.#lose(held);
    if (lossCause === undefined)
      this.#report('false-signal', `${describeHeld(held)}: its signal aborted with ${code}`);
    else this.#checkCause(held, lossCause);
  }

  #lose(held: Held): void {
    held.lostAt = this.#world.now;
    this.lost += 1;
  }

  #checkCause(held: Held, cause: LossCause): void {
    const { process, seat } = held.attempt;
    const tampered = this.#observer.tamperingWith(held.key, held.token)?.how;
    const expired = this.#observer.removalOf(held.key, held.token) === 'expiry';
    const revoked = this.#observer.leasesRevokedOutside.has(held.lease);
    const isTrue: Record<LossCause, boolean> = {
      unconfirmed: !this.#calm,
      expired: expired || revoked,
      revoked: revoked || process.wasSuspended,
      'key-deleted': tampered !== undefined || expired,
      'foreign-write': tampered === 'overwritten',
      closed: seat.closing,
      'max-hold': false,
      'history-regressed': false,
      unauthorized: false,
    };
    if (isTrue[cause]) return;
    this.#report('false-cause', `${describeHeld(held)}: told lost because of ${cause}, which is not true`);
  }
}
