import type { SemaphoreChange } from './observer.ts';
import { type Contender, isOfSame } from './queues.ts';

/** That never more hold than there are permits, each in its turn and in one slot, and that nobody keeps a slot. */
export class PermitRules {
  readonly #report: (kind: string, message: string) => void;
  /** By id: slots that were seen. */
  readonly #seen = new Set<string>();
  /** By semaphore: who stood in its queue at the last look. */
  readonly #queues = new Map<string, readonly Contender[]>();

  constructor(report: (kind: string, message: string) => void) {
    this.#report = report;
  }

  onLimit(semaphore: string, before: number | undefined, permits: number): void {
    if (before === undefined || before === permits) return;
    this.#report(
      'false-limit',
      `${semaphore}: has ${permits} permits instead of ${before}, and nobody asked`,
    );
  }

  /** After every revision that touched it. */
  onChange(change: SemaphoreChange): void {
    const { semaphore, permits, queue, slots } = change;
    if (permits !== undefined && slots.length > permits)
      this.#report('too-many-permits', `${semaphore}: ${slots.length} hold one of ${permits} permits`);
    for (const slot of slots) {
      if (this.#seen.has(slot.id)) continue;
      this.#seen.add(slot.id);
      this.#onTaken(slot, change);
    }
    const before = this.#queues.get(semaphore) ?? [];
    this.#queues.set(semaphore, queue);
    for (const gone of before) if (!queue.includes(gone)) this.#onGone(gone, change);
  }

  #onTaken(slot: Contender, { semaphore, permits, queue, slots, actor }: SemaphoreChange): void {
    const place = queue.findIndex((contender) => isOfSame(contender, slot));
    if (place < 0 || place >= (permits ?? 1) || queue[place]?.spoilt !== false) {
      const where = place < 0 ? 'not in the queue' : `in place ${place + 1} of ${permits} permits`;
      this.#report('permit-out-of-turn', `${actor} took ${slot.queue}, but is ${where}`);
    }
    if (slots.filter((other) => isOfSame(other, slot)).length > 1)
      this.#report('two-slots', `${semaphore}: ${actor} took two slots for one permit`);
  }

  /** Whoever gives up its own place gives up its slot in the same moment. */
  #onGone(gone: Contender, { slots, actor }: SemaphoreChange): void {
    const kept = slots.find((slot) => isOfSame(slot, gone) && slot.lease === gone.lease && !slot.spoilt);
    if (kept !== undefined && actor.startsWith('client-'))
      this.#report('slot-kept', `${actor} left the queue and kept ${kept.queue}`);
  }
}
