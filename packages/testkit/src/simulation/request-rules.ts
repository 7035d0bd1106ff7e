import { describeHeld, type Held, isOver } from './held.ts';

interface Asked {
  readonly reason: string;
  /** True time. */
  readonly at: number;
}

/** That what a holder is asked reaches it, and nothing that nobody asked. */
export class RequestRules {
  readonly #report: (kind: string, message: string) => void;
  /** By acquisition; what is asked later takes the place of what was asked before. */
  readonly #asked = new Map<string, Asked[]>();
  /** Who listens, and how much of what it was asked it has heard. */
  readonly #listening = new Map<Held, number>();

  constructor(report: (kind: string, message: string) => void) {
    this.#report = report;
  }

  /** A request was written. */
  onRequest(acquisition: string, request: string, at: number): void {
    const asked = this.#asked.get(acquisition) ?? [];
    const { reason } = JSON.parse(request) as { reason: string };
    this.#asked.set(acquisition, [...asked, { reason, at }]);
  }

  listens(held: Held): void {
    this.#listening.set(held, 0);
  }

  heard(held: Held, reason: string): void {
    const asked = this.#of(held);
    const heard = this.#listening.get(held) ?? 0;
    const next = asked.findIndex((each, index) => index >= heard && each.reason === reason);
    if (next < 0)
      this.#report('false-request', `${describeHeld(held)}: heard "${reason}", which nobody asked`);
    else this.#listening.set(held, next + 1);
  }

  /** Whoever listens has heard what is asked for longer than this. */
  look(now: number, undisturbedSince: number, limitMs: number): void {
    for (const [held, heard] of this.#listening) {
      const { process } = held.attempt;
      if (isOver(held) || process.isDead) {
        this.#listening.delete(held);
        continue;
      }
      const asked = this.#of(held);
      const last = asked.at(-1);
      if (last === undefined || heard === asked.length || !process.isRunning) continue;
      const since = Math.max(last.at, undisturbedSince, process.runningSince, held.grantedAt);
      if (now - since >= limitMs)
        this.#report('unheard-request', `${describeHeld(held)}: has not heard "${last.reason}"`);
    }
  }

  #of({ hold }: Held): readonly Asked[] {
    return this.#asked.get(hold.token.acquisition) ?? [];
  }
}
