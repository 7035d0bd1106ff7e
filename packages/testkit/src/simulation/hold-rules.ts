import type { LockkeeperError, LossCause, ReleaseAnswer } from '@lockkeeper/core';
import type { Attempt } from './acquire-rules.ts';
import { describeHeld, type Held, heldAtMostMs, isOver, lossOf } from './held.ts';
import type { Observer } from './observer.ts';
import type { SimulatedProcess } from './process.ts';
import type { Contender } from './queues.ts';
import { type AnyHold, resourcesOf } from './target.ts';
import type { World } from './world.ts';

/** Within this time the first of a queue is granted, and tampering noticed, where nothing is disturbed. */
export const PROMPT_MS = 1_000;
/** What was overdue when a process goes on after a stop, is told within this time. */
const CATCH_UP_MS = 5;
/** How long work that was asked to stop may go on before its term is given back. */
export const DRAIN_MS = 5_000;

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
  /** Whatever was granted, by `key@revision`. */
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

  of({ id }: Contender): Held | undefined {
    return this.#all.get(id);
  }

  onGranted(attempt: Attempt, hold: AnyHold): Held {
    const { revision, acquisition } = hold.token;
    // Each key by the revision at which it was created; what else is compared is the lease and the lineage.
    const keys = hold.compare().flatMap((compare) => {
      const { key, target, to } = compare;
      return target === 'modRevision' || target === 'createRevision' ? `${key}@${to}` : [];
    });
    const created = keys.map((id) => this.#observer.createdAs(id));
    const held: Held = {
      attempt,
      hold,
      signal: hold.signal,
      keys,
      token: revision,
      lease: created[0]?.lease ?? 0n,
      queues: created.flatMap((contender) => contender?.queue ?? []),
      resources: resourcesOf(attempt.visit.target, hold),
      grantedAt: this.#world.now,
      grantedAtOwnTime: attempt.process.now(),
      downgradeBegun: false,
      settledAt: undefined,
      lostAt: undefined,
    };
    for (const id of keys) this.#all.set(id, held);
    this.#standing.add(held);
    this.granted += 1;
    const told = describeHeld(held);
    const isTrue = held.resources.every((resource) =>
      created.some((contender) => contender?.queue === resource && contender.createRevision === revision),
    );
    if (!isTrue || !created.every((contender) => contender?.acquisition === acquisition)) {
      this.#report('false-token', `${told}: not all of its keys were created at revision ${revision}`);
    }
    if (!this.#observer.wasFirst(held)) {
      this.#report('granted-out-of-turn', `${told}: there was no revision at which it was its turn`);
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
    if (outcome === 'released' && this.#observer.isLeft(held)) {
      this.#report('false-release', `${told}: told released, but a key of it is left in etcd`);
    }
    if (outcome === 'released' && this.#mustKnowOfOverwriting(held)) {
      this.#report('false-release', `${told}: told released, but a key of it had been written over`);
    }
    const { minHoldMs } = held.attempt.visit;
    if (outcome === 'released' && heldAtMostMs(held) < minHoldMs - 2 && !held.attempt.seat.closing) {
      this.#report('released-early', `${told}: released before its minHoldMs ${minHoldMs} had passed`);
    }
  }

  /** Its ending found the key so: unless others may be in that place, or somebody was quicker to remove it. */
  #mustKnowOfOverwriting(held: Held): boolean {
    const isInSlot = held.attempt.visit.target.kind === 'semaphore';
    const wasRemoved = this.#observer.removalOf(held) === 'outside';
    return !isInSlot && !wasRemoved && this.#observer.tamperingWith(held)?.how === 'overwritten';
  }

  onRemoved(contender: Contender, actor: string): void {
    const held = this.of(contender);
    if (held === undefined || isOver(held) || held.attempt.seat.closing) return;
    if (actor !== held.attempt.process.name || mayBeGivenBack(held)) return;
    this.#report('deleted-standing-key', `${actor} deleted the key of ${describeHeld(held)}, which stands`);
  }

  /** The key of a writer was rewritten by its own process. */
  onRewritten(contender: Contender): void {
    const held = this.of(contender);
    if (held?.downgradeBegun === true && contender.shares) return;
    this.#report('false-downgrade', `${contender.key}: was rewritten, but no holder had asked to downgrade`);
  }

  onDowngraded(held: Held): void {
    if (!this.#observer.isIntact(held) || this.#observer.isShared(held)) return;
    this.#report('lost-downgrade', `${describeHeld(held)}: told downgraded, but its key is still a writer's`);
  }

  onRevoked(lease: bigint, process: SimulatedProcess): void {
    for (const held of this.#standing) {
      const { attempt, settledAt } = held;
      if (held.lease !== lease || settledAt !== undefined || attempt.seat.closing) continue;
      if (mayBeGivenBack(held)) continue;
      if (!this.#observer.isIntact(held)) continue;
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
    const byQueue = new Map<string, Held[]>();
    for (const held of this.#standing) {
      const { process, visit } = held.attempt;
      if (process.isDead || isOver(held)) {
        this.#standing.delete(held);
        continue;
      }
      if (!process.isRunning) continue;
      if (held.signal.aborted) this.#onSignal(held);
      // Holds are asked only where their answer could be wrong: asking changes what their timers find.
      if (!this.#observer.isIntact(held)) {
        this.#lookAtKeyless(held);
        continue;
      }
      if (visit.maxHoldMs !== undefined) this.#lookAtCap(held, visit.maxHoldMs);
      for (const resource of held.resources) {
        const others = byQueue.get(resource);
        if (others === undefined) byQueue.set(resource, [held]);
        else others.push(held);
      }
    }
    for (const [queue, holds] of byQueue) if (holds.length > 1) this.#lookAtRivals(queue, holds);
  }

  /** Readers hold together, nobody else does. */
  #lookAtRivals(queue: string, holds: readonly Held[]): void {
    if (holds.every((held) => this.#observer.isShared(held))) return;
    const rivals = holds.filter(({ hold }) => hold.standing === 'held' || hold.standing === 'suspect');
    if (rivals.length > 1 && !rivals.every((held) => this.#observer.isShared(held)))
      this.#report('two-holders', `${queue}: ${rivals.map(describeHeld).join(' and ')}`);
  }

  #lookAtCap(held: Held, maxHoldMs: number): void {
    const { process } = held.attempt;
    const overdueMs = process.now() - held.grantedAtOwnTime - maxHoldMs;
    if (overdueMs < CATCH_UP_MS || this.#world.now - process.runningSince < CATCH_UP_MS) return;
    const signalled = held.signal.aborted;
    const { standing } = held.hold;
    if (standing === 'released') return;
    if (standing !== 'lost' || !signalled)
      this.#report('held-too-long', `${describeHeld(held)}: stands beyond its maxHoldMs ${maxHoldMs}`);
    this.#lose(held);
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
    const tampered = this.#observer.tamperingWith(held);
    // Timers do not run while their clock stands still.
    const mustTell = tampered === undefined && !process.wasSuspended;
    if (mustTell && !signalled && this.#world.now - process.runningSince > CATCH_UP_MS) {
      this.#report('silent-loss', `${describeHeld(held)}: its key is gone, but its signal had not told`);
    }
    this.#lose(held);
  }

  #onFalseStanding(held: Held, standing: 'held' | 'suspect'): void {
    const tampered = this.#observer.tamperingWith(held);
    if (tampered !== undefined) {
      if (!this.#calm || this.#world.now - tampered.at <= PROMPT_MS) return;
      const late = `${PROMPT_MS} ms after its key was ${tampered.how}`;
      this.#report('unnoticed', `${describeHeld(held)}: told ${standing} ${late}`);
      return;
    }
    // Its monotonic clock stood still: suspect is all that it can know.
    if (standing === 'suspect' && held.attempt.process.wasSuspended) return;
    const by = this.#observer.removalOf(held);
    this.#report(
      'stands-without-key',
      `${describeHeld(held)}: told ${standing}, but its key is gone from etcd (${by})`,
    );
  }

  #onSignal(held: Held): void {
    const { code, lossCause } = held.signal.reason as LockkeeperError;
    const { seat, cancellation } = held.attempt;
    if (code === 'closed' && seat.closing) return;
    if (held.signal.reason === cancellation.reason) return;
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
    const tampered = this.#observer.tamperingWith(held)?.how;
    const expired = this.#observer.removalOf(held) === 'expiry';
    const revoked = this.#observer.leasesRevokedOutside.has(held.lease);
    const isTrue: Record<LossCause, boolean> = {
      unconfirmed: !this.#calm,
      expired: expired || revoked,
      revoked: revoked || process.wasSuspended,
      'key-deleted': tampered !== undefined || expired,
      'foreign-write': tampered === 'overwritten',
      closed: seat.closing,
      'max-hold': heldAtMostMs(held) >= (held.attempt.visit.maxHoldMs ?? Number.POSITIVE_INFINITY) - 2,
      'history-regressed': false,
      unauthorized: false,
    };
    if (isTrue[cause]) return;
    this.#report('false-cause', `${describeHeld(held)}: told lost because of ${cause}, which is not true`);
  }
}

/** Its owner, or the limit that its owner set, may have given it back although its work goes on. */
export function mayBeGivenBack(held: Held): boolean {
  const { visit, process, cancellation } = held.attempt;
  if (visit.maxHoldMs !== undefined && heldAtMostMs(held) >= visit.maxHoldMs - 2) return true;
  return cancellation.reason !== undefined && process.now() - cancellation.atOwnTime >= DRAIN_MS - 2;
}
