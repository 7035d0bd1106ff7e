import type { Contender } from './queues.ts';

/** Who led an election from a revision on, and what the leader's value was. */
export interface LeaderState {
  readonly since: bigint;
  /** True time. */
  readonly sinceMs: number;
  readonly leader:
    | {
        readonly key: string;
        readonly revision: bigint;
        readonly valueRevision: bigint;
        readonly value: string;
      }
    | undefined;
}

/** All leaders of one election as etcd had them, revision by revision. */
export class LeaderHistory {
  readonly states: LeaderState[] = [{ since: 0n, sinceMs: 0, leader: undefined }];
  /** By key: its value, and when it was written. */
  readonly #values = new Map<string, { readonly value: string; readonly revision: bigint }>();

  get latest(): number {
    return this.states.length - 1;
  }

  wrote(key: string, revision: bigint, value: string): void {
    this.#values.set(key, { value, revision });
  }

  /** The first of the candidates after everything that happened at `revision`. */
  stands(first: Contender | undefined, revision: bigint, now: number): void {
    const written = first && this.#values.get(first.key);
    const before = this.states[this.latest]?.leader;
    const leader = first && {
      key: first.key,
      revision: first.createRevision,
      valueRevision: written?.revision ?? first.createRevision,
      value: written?.value ?? '',
    };
    if (
      before?.key === leader?.key &&
      before?.revision === leader?.revision &&
      before?.valueRevision === leader?.valueRevision
    )
      return;
    this.states.push({ since: revision, sinceMs: now, leader });
  }

  /** The states from `from` on that are the same as this one: that nobody leads comes again and again. */
  find(leader: LeaderState['leader'], from: number): number[] {
    const found: number[] = [];
    for (let at = from; at < this.states.length; at += 1) if (this.isSame(leader, at)) found.push(at);
    return found;
  }

  isSame(leader: LeaderState['leader'], at: number): boolean {
    const state = this.states[at]?.leader;
    return (
      state?.key === leader?.key &&
      state?.revision === leader?.revision &&
      state?.valueRevision === leader?.valueRevision &&
      state?.value === leader?.value
    );
  }
}
