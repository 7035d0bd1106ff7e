import type { LockkeeperError } from '@lockkeeper/core';
import { describeHeld, type Held, heldAtMostMs } from './held.ts';
import type { Observer } from './observer.ts';
import type { Contender } from './queues.ts';

/** One call of `proclaim`. */
export interface Proclamation {
  readonly held: Held;
  readonly value: string;
  /** Its number among those of its term. */
  readonly number: number;
  takenEffect: boolean;
}

/** That a candidate's value is rewritten by the leader alone, as it asked, in its order, once each. */
export class ProclaimRules {
  readonly #observer: Observer;
  readonly #report: (kind: string, message: string) => void;
  /** By the id of its key. */
  readonly #ofTerm = new Map<string, Proclamation[]>();

  constructor(observer: Observer, report: (kind: string, message: string) => void) {
    this.#observer = observer;
    this.#report = report;
  }

  begun(held: Held, value: string): Proclamation {
    const [id = ''] = held.keys;
    const earlier = this.#ofTerm.get(id) ?? [];
    const call = { held, value, number: earlier.length, takenEffect: false };
    this.#ofTerm.set(id, [...earlier, call]);
    return call;
  }

  /** A value was written to a candidate's key by its own process. */
  wrote({ key, id, headRevision }: Contender, value: string): void {
    const calls = this.#ofTerm.get(id) ?? [];
    const call = calls.find((each) => each.value === value);
    if (headRevision === undefined || call === undefined) {
      this.#report('false-proclamation', `${key}: "${value}" was written, which no leader had proclaimed`);
      return;
    }
    const later = calls.find(({ number, takenEffect }) => takenEffect && number >= call.number);
    if (later !== undefined)
      this.#report(
        'proclaimed-twice',
        `${describeHeld(call.held)}: "${value}" was written after "${later.value}" had been`,
      );
    call.takenEffect = true;
  }

  done({ held, value, takenEffect }: Proclamation): void {
    if (takenEffect) return;
    this.#report('lost-proclamation', `${describeHeld(held)}: "${value}" is told written, but never was`);
  }

  failed({ held, value }: Proclamation, error: LockkeeperError): void {
    this.mayFail(held, `proclaiming "${value}"`, error);
  }

  /** What a call under a hold may end with. */
  mayFail(held: Held, what: string, error: LockkeeperError): void {
    const { code } = error;
    const may =
      (code === 'lost' && this.#mayBeLost(held)) ||
      (code === 'released' && held.hold.standing !== 'held') ||
      code === 'limit-exceeded' ||
      (code === 'closed' && held.attempt.seat.closing);
    if (!may) this.#report('false-error', `${describeHeld(held)}: ${what} failed: ${error}`);
  }

  #mayBeLost(held: Held): boolean {
    const { maxHoldMs } = held.attempt.visit;
    if (maxHoldMs !== undefined && heldAtMostMs(held) >= maxHoldMs - 2) return true;
    return !this.#observer.isIntact(held) || held.hold.standing === 'lost';
  }
}
