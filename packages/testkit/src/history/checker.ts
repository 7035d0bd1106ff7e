import { checkGrants, checkOverlaps, checkWatchedGrants } from './check-locks.ts';
import { checkStorage } from './check-storage.ts';
import type { Finding } from './finding.ts';
import type { History } from './history.ts';
import { pairOperations } from './operations.ts';
import { TokenReader } from './token-marks.ts';

/** Promises in one order: those of locks, those of fencing, and then what nobody promised. */
const PROMISES: readonly Finding['promise'][] = ['lock', 'fencing', 'none'];

/**
 * What a history shows to be wrong. Each finding is certain, given the order of the history and the rules of
 * {@link Operation}: an operation takes effect between its invocation and its end, one whose outcome is unknown
 * then, later, or never. It is never counted as lost, nor as done.
 *
 * What it cannot see: a stale write that was invoked before the newer token was acknowledged, unless a final
 * read tells the order of the entries; a lost write without an `entry`; tokens of other schemes than
 * `FencingToken` and decimal numbers, which have no order here.
 *
 * A pure function; its time rises with the number of events, and with how many hold at once.
 */
export function checkHistory(history: History): Finding[] {
  const operations = pairOperations(history);
  const tokens = new TokenReader(history);
  const findings = [
    ...checkWatchedGrants(history, tokens),
    ...checkGrants(operations, tokens),
    ...checkStorage(operations, tokens),
    ...checkOverlaps(history, operations, tokens),
  ];
  return findings.toSorted((a, b) => PROMISES.indexOf(a.promise) - PROMISES.indexOf(b.promise));
}

/** Those that break a promise: an empty list is what a test of guarded code asserts. */
export function violationsIn(findings: readonly Finding[]): Finding[] {
  return findings.filter(({ promise }) => promise !== 'none');
}
