import type { Finding } from './finding.ts';
import type { HistoryEvent, InvokeEvent } from './history.ts';
import { withMarksBefore } from './marks-before.ts';
import {
  type AcknowledgedOperation,
  groupOperations,
  isAcknowledged,
  type PairedOperation,
} from './operations.ts';
import { markAbove, NO_MARKS, raiseMarks, type SeenToken, type TokenReader } from './token-marks.ts';

/** What each resource took although it must not, and what it lost. */
export function checkStorage(operations: readonly PairedOperation[], tokens: TokenReader): Finding[] {
  const resources = groupOperations(operations, (invoke) =>
    'resource' in invoke ? invoke.resource : undefined,
  );
  return [...resources].flatMap(([resource, all]) => {
    const writes = all.filter(({ invoke }) => invoke.f === 'write' && invoke.entry !== undefined);
    const last = all.filter(isAcknowledged).findLast(({ invoke }) => invoke.f === 'read' && invoke.final);
    const { entries, inOrder } = last?.end ?? {};
    const stale = [
      ...checkStaleWrites(resource, all, tokens),
      ...(entries !== undefined && inOrder ? checkOrder(resource, writes, entries, tokens) : []),
    ];
    return [
      // One write may show in both ways.
      ...new Map(stale.map((one) => [one.events.at(-1), one])).values(),
      ...(last === undefined || entries === undefined ? [] : checkEntries(resource, writes, entries, last)),
    ];
  });
}

/** Once a claim or a write of a token is acknowledged, nothing of a lower token may be accepted any more. */
function checkStaleWrites(
  resource: string,
  operations: readonly PairedOperation[],
  tokens: TokenReader,
): Finding[] {
  const guarded = operations.filter(({ invoke }) => invoke.f === 'claim' || invoke.f === 'write');
  return withMarksBefore(guarded, tokens).flatMap(({ operation, seen, before }) => {
    const above = markAbove(before, seen);
    return above === undefined ? [] : [stale(resource, operation.invoke, seen, above)];
  });
}

/** What the final state shows of the writes that had ended before it was read. */
function checkEntries(
  resource: string,
  writes: readonly PairedOperation[],
  entries: readonly string[],
  { invokedAt: readAt, end: read }: AcknowledgedOperation,
): Finding[] {
  const counts = new Map<string, number>();
  for (const entry of entries) counts.set(entry, (counts.get(entry) ?? 0) + 1);
  const byEntry = groupOperations(writes, (invoke) => (invoke.f === 'write' ? invoke.entry : undefined));
  return [...byEntry].flatMap(([entry, all]): Finding[] => {
    const count = counts.get(entry) ?? 0;
    const possible = all.filter(({ end }) => end?.type !== 'fail');
    const acknowledged = all.find(({ end, endedAt }) => end?.type === 'ok' && endedAt < readAt);
    const add = (kind: Finding['kind'], what: string, operations: readonly PairedOperation[]): Finding[] => {
      const events = [...operations.map(({ invoke, end }): HistoryEvent => end ?? invoke), read];
      const message = `resource "${resource}": entry "${entry}" ${what}`;
      return [{ kind, promise: 'fencing', of: resource, message, events }];
    };
    if (count === 0 && acknowledged !== undefined) {
      return add('lost-update', 'was acknowledged and is not in the final state', [acknowledged]);
    }
    if (count > 0 && possible.length === 0) {
      return add('applied-after-fail', 'had failed and is in the final state', all);
    }
    if (count > possible.length) {
      return add('applied-twice', `was written ${possible.length} × and is there ${count} ×`, possible);
    }
    return [];
  });
}

/** Where the store tells its order, tokens rise along it. */
function checkOrder(
  resource: string,
  writes: readonly PairedOperation[],
  entries: readonly string[],
  tokens: TokenReader,
): Finding[] {
  const writeOf = new Map(writes.map((write) => [entryOf(write), write]));
  const findings: Finding[] = [];
  let marks = NO_MARKS;
  for (const entry of entries) {
    const { invoke, end } = writeOf.get(entry) ?? {};
    if (invoke?.f !== 'write') continue;
    const seen = tokens.read(invoke.token, end ?? invoke);
    if (seen === undefined) continue;
    const above = markAbove(marks, seen);
    if (above !== undefined) findings.push(stale(resource, invoke, seen, above));
    marks = raiseMarks(marks, seen);
  }
  return findings;
}

function stale(resource: string, invoke: InvokeEvent, seen: SeenToken, above: SeenToken): Finding {
  const what = 'entry' in invoke && invoke.entry !== undefined ? ` "${invoke.entry}"` : '';
  const message = `resource "${resource}": the ${invoke.f}${what} of token ${seen.text} was accepted after the newer ${above.text}`;
  return {
    kind: 'stale-write',
    promise: 'fencing',
    of: resource,
    message,
    events: [above.event, seen.event],
  };
}

function entryOf({ invoke }: PairedOperation): string {
  return invoke.f === 'write' ? (invoke.entry ?? '') : '';
}
