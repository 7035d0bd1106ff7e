import { describeHeld, type Held } from './held.ts';
import type { Observer } from './observer.ts';
import { type Contender, MARKS } from './queues.ts';

/** Clocks may run so much faster than true time, or slower. */
const CLOCKS = 1.06;

/**
 * The lock-delay, by the marks that holders leave: whoever finds one waits, whoever finds none need not; and a mark is
 * taken back by nothing but its owner's release.
 */
export class DelayRules {
  readonly #observer: Observer;
  readonly #lockDelayMs: number;
  readonly #report: (kind: string, message: string) => void;
  /** By acquisition: when it found a mark of somebody else where it left its own; true time. */
  readonly #owing = new Map<string, number>();
  /** By acquisition. */
  readonly #holds = new Map<string, Held>();

  /** @param lockDelayMs - of everybody in this world who asks for one. */
  constructor(observer: Observer, lockDelayMs: number, report: (kind: string, message: string) => void) {
    this.#observer = observer;
    this.#lockDelayMs = lockDelayMs;
    this.#report = report;
  }

  /** A mark was put or taken back. @param mayBeReleased - whether somebody has let go of that hold. */
  onMark(
    owner: string | undefined,
    before: string | undefined,
    now: number,
    mayBeReleased: (held: Held) => boolean,
  ): void {
    if (owner !== undefined) {
      if (before !== undefined && before !== owner && !this.#owing.has(owner)) this.#owing.set(owner, now);
      return;
    }
    const held = this.#holds.get(before ?? '');
    // What was never handed out has nothing on its way, once it has waited for what an earlier one may have.
    const since = held === undefined ? this.#owing.get(before ?? '') : undefined;
    const isDue = since === undefined || now - since >= this.#lockDelayMs / CLOCKS - 2;
    if (held === undefined ? isDue : mayBeReleased(held)) return;
    const whose = held === undefined ? 'one who was never granted' : describeHeld(held);
    this.#report('mark-taken-back', `the mark of ${whose} is gone without a release`);
  }

  granted(held: Held, now: number): void {
    const { attempt, hold, resources } = held;
    const { acquisition } = hold.token;
    this.#holds.set(acquisition, held);
    if (attempt.visit.lockDelayMs === undefined) return;
    const told = `${attempt.process.name}'s grant of ${resources.join(', ')} (${attempt.visit.id})`;
    const left = resources.every((resource) => this.#observer.markAt(markOf(resource)) === acquisition);
    if (!left && this.#observer.isIntact(held)) this.#report('no-mark', `${told}: left no mark`);
    const since = this.#owing.get(acquisition);
    if (since !== undefined && now - since < this.#lockDelayMs / CLOCKS - 2)
      this.#report(
        'granted-in-delay',
        `${told}: after ${Math.round(now - since)} of ${this.#lockDelayMs} ms`,
      );
  }

  released({ attempt, hold, resources }: Held): void {
    const { acquisition } = hold.token;
    if (resources.some((resource) => this.#observer.markAt(markOf(resource)) === acquisition))
      this.#report(
        'mark-left',
        `${attempt.process.name} released ${resources.join(', ')}, but its mark stands`,
      );
  }

  /** Until when a contender may wait although it is its turn; true time. */
  owesUntil({ acquisition }: Contender): number {
    const since = this.#owing.get(acquisition ?? '');
    return since === undefined ? 0 : since + this.#lockDelayMs * CLOCKS;
  }
}

function markOf(resource: string): string {
  const slot = /^(semaphore\/[^/]*)\/(\d+)$/.exec(resource);
  return `${MARKS}${encodeURIComponent(slot === null ? `${resource}/` : `${slot[1]}/slots/${slot[2]}`)}`;
}
