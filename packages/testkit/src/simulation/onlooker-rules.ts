import type { Leader } from '@lockkeeper/core';
import type { SimulatedEtcd } from './etcd.ts';
import type { LeaderHistory } from './leader-history.ts';
import type { Observer } from './observer.ts';
import type { SimulatedProcess } from './process.ts';

/** One loop over `observe()`, and how far it has seen. */
export interface Outlook {
  readonly who: string;
  readonly process: SimulatedProcess;
  readonly history: LeaderHistory;
  /** The latest state when it began, as an index. */
  readonly begunAt: number;
  /** True time. */
  readonly begunAtMs: number;
  /** The states of which it may have been told last; `undefined`: none yet. */
  at: readonly number[] | undefined;
  /** Still busy with what it was told. */
  busy: boolean;
}

/**
 * What is told of leaders, against what was true: no state that etcd never had, in the order of revisions, and
 * none left out that a watch can still tell of.
 */
export class OnlookerRules {
  readonly #observer: Observer;
  readonly #etcd: SimulatedEtcd;
  readonly #report: (kind: string, message: string) => void;
  readonly #open = new Set<Outlook>();

  constructor(observer: Observer, etcd: SimulatedEtcd, report: (kind: string, message: string) => void) {
    this.#observer = observer;
    this.#etcd = etcd;
    this.#report = report;
  }

  begun(who: string, process: SimulatedProcess, election: string, now: number): Outlook {
    const history = this.#observer.leadersOf(`election/${election}`);
    const begun = { begunAt: history.latest, begunAtMs: now };
    const outlook: Outlook = { who, process, history, ...begun, at: undefined, busy: false };
    this.#open.add(outlook);
    return outlook;
  }

  ended(outlook: Outlook): void {
    this.#open.delete(outlook);
  }

  told(outlook: Outlook, leader: Leader | undefined): void {
    const { history, who, begunAt, at } = outlook;
    const found = history.find(leader, at === undefined ? begunAt : Math.min(...at) + 1);
    if (found.length === 0) {
      this.#report(
        'false-leader',
        `${who} was told of ${describe(leader)}, which etcd did not have since then`,
      );
      return;
    }
    const next =
      at === undefined ? found : found.filter((to) => at.some((from) => this.#follows(history, from, to)));
    if (next.length === 0)
      this.#report('missed-leader', `${who} was told of ${describe(leader)}, but not of what was before`);
    outlook.at = next;
  }

  /** After a compaction a watch cannot tell what came between. */
  #follows({ states }: LeaderHistory, from: number, to: number): boolean {
    return to === from + 1 || (to > from && this.#etcd.compactedTo > (states[from]?.since ?? 0n));
  }

  /** One answer of `leader()`; `since`: the latest state when it was asked. */
  answered(who: string, history: LeaderHistory, since: number, leader: Leader | undefined): void {
    if (history.find(leader, since).length > 0) return;
    this.#report('false-leader', `${who} was answered ${describe(leader)}, which did not lead at that time`);
  }

  /** Whoever looks on has been told of what is so for longer than this. */
  look(now: number, undisturbedSince: number, limitMs: number): void {
    for (const outlook of this.#open) {
      const { process, history, busy, begunAtMs } = outlook;
      if (!process.isRunning || busy || knowsLatest(outlook)) continue;
      const changedAt = history.states[history.latest]?.sinceMs ?? 0;
      const since = Math.max(changedAt, undisturbedSince, begunAtMs, process.runningSince);
      if (now - since >= limitMs) this.#notTold(outlook);
    }
  }

  /** Everybody has been told the truth by now. */
  allTold(): void {
    for (const outlook of this.#open) {
      if (!outlook.process.isDead && !knowsLatest(outlook)) this.#notTold(outlook);
    }
  }

  #notTold({ who, history }: Outlook): void {
    this.#report('stale-leader', `${who} was not told of ${describe(history.states.at(-1)?.leader)}`);
  }
}

function knowsLatest({ history, at }: Outlook): boolean {
  const [known] = at ?? [];
  return known !== undefined && history.isSame(history.states[known]?.leader, history.latest);
}

function describe(leader: Pick<Leader, 'value' | 'revision'> | undefined): string {
  return leader === undefined ? 'nobody' : `leader "${leader.value}" (token ${leader.revision})`;
}
