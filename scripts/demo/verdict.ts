// What a run did to the account, and whether both runs of an act show what they should. Pure: facts in, numbers
// and reasons out.
import { compareTokens, FencingToken } from '@lockkeeper/fencing';
import { type AccountState, OPENING } from './account.ts';
import type { StoryEvent } from './story.ts';

export interface RunResult {
  /** Entries that the storage confirmed as written. */
  readonly acknowledged: number;
  readonly openingBalance: number;
  /** The opening balance and every acknowledged entry. */
  readonly expectedBalance: number;
  /** As read from the storage at the end. */
  readonly foundBalance: number;
  /** Acknowledged entries that the account does not contain at the end. */
  readonly lostUpdates: number;
  /** Writes that the guard refused. */
  readonly rejected: number;
  /** The refusals' codes, each once. */
  readonly rejectedWith?: string;
  /** Why A's signal aborted; absent if it did not. */
  readonly signalReason?: string;
  /** In the order in which the lock was granted. */
  readonly tokens: readonly { readonly holder: string; readonly token: string }[];
  /** Ends that no run of the demo should have. */
  readonly failures: readonly string[];
}

export function resultOf(events: readonly StoryEvent[], found: AccountState): RunResult {
  const applied = events.filter((event) => event.kind === 'applied');
  const refused = events.filter((event) => event.kind === 'refused');
  const lost = events.find((event) => event.kind === 'lost' && event.who === 'A');
  return {
    acknowledged: applied.length,
    openingBalance: OPENING.balance,
    expectedBalance: applied.reduce((sum, { amount }) => sum + amount, OPENING.balance),
    foundBalance: found.balance,
    lostUpdates: applied.filter(({ entry }) => !found.entries.includes(entry)).length,
    rejected: refused.length,
    ...(refused.length > 0 && { rejectedWith: eachOnce(refused.map(({ code }) => code)) }),
    ...(lost?.kind === 'lost' && { signalReason: lost.reason }),
    tokens: events
      .filter((event) => event.kind === 'acquired')
      .map(({ who, token }) => ({ holder: who, token })),
    failures: events
      .filter((event) => event.kind === 'failed')
      .map(({ who, message }) => `${who}: ${message}`),
  };
}

export interface Totals {
  readonly acknowledged: number;
  readonly expectedBalance: number;
  readonly foundBalance: number;
  readonly lostUpdates: number;
  readonly rejected: number;
  readonly rejectedWith?: string;
  readonly signalReason?: string;
}

export function totalOf(runs: readonly RunResult[]): Totals {
  const sum = (field: 'acknowledged' | 'expectedBalance' | 'foundBalance' | 'lostUpdates' | 'rejected') =>
    runs.reduce((total, run) => total + run[field], 0);
  const rejectedWith = eachOnce(runs.map((run) => run.rejectedWith));
  const signalReason = eachOnce(runs.map((run) => run.signalReason));
  return {
    acknowledged: sum('acknowledged'),
    expectedBalance: sum('expectedBalance'),
    foundBalance: sum('foundBalance'),
    lostUpdates: sum('lostUpdates'),
    rejected: sum('rejected'),
    ...(rejectedWith !== '' && { rejectedWith }),
    ...(signalReason !== '' && { signalReason }),
  };
}

export interface ActResult {
  readonly name: string;
  readonly unguarded: RunResult;
  readonly guarded: RunResult;
}

/** Why the demo does not show what it should; empty when it does. */
export function shortcomings(acts: readonly ActResult[]): readonly string[] {
  if (acts.length === 0) return ['no act was played'];
  return acts.flatMap(({ name, unguarded, guarded }) => [
    ...[
      ...runShortcomings(unguarded),
      ...(unguarded.lostUpdates > 0 ? [] : ['no update was lost, so the late write did no harm']),
      ...(unguarded.foundBalance === unguarded.expectedBalance ? ['the balance is right'] : []),
      ...(unguarded.rejected === 0 ? [] : [`${unguarded.rejected} writes were rejected`]),
    ].map((why) => `${name}, without a guard: ${why}`),
    ...[
      ...runShortcomings(guarded),
      ...(guarded.lostUpdates === 0 ? [] : [`${guarded.lostUpdates} acknowledged updates were lost`]),
      ...(guarded.foundBalance === guarded.expectedBalance
        ? []
        : [`the balance is ${guarded.foundBalance}, expected ${guarded.expectedBalance}`]),
      ...(guarded.rejectedWith === 'stale-token'
        ? []
        : [`the late write was answered with ${guarded.rejectedWith ?? 'no refusal'}, expected stale-token`]),
    ].map((why) => `${name}, with the guard: ${why}`),
  ]);
}

function runShortcomings(run: RunResult): readonly string[] {
  const tokens = run.tokens.map(({ token }) => FencingToken.parse(token));
  const rise = tokens.every((token, index) => {
    const before = tokens[index - 1];
    return before === undefined || compareTokens(token, before) === 'above';
  });
  return [
    ...run.failures,
    ...(run.acknowledged >= 2 ? [] : [`${run.acknowledged} entries were acknowledged, expected 2`]),
    ...(tokens.length >= 2 ? [] : [`the lock was granted ${tokens.length} times, expected at least 2`]),
    ...(rise ? [] : [`the tokens do not rise: ${tokens.join(', ')}`]),
    ...(run.signalReason === undefined ? ["A's signal did not abort"] : []),
  ];
}

function eachOnce(values: readonly (string | undefined)[]): string {
  return [...new Set(values.filter((value) => value !== undefined))].join(', ');
}
