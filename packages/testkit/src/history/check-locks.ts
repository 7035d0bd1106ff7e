import type { Finding } from './finding.ts';
import type { History, HistoryEvent } from './history.ts';
import { withMarksBefore } from './marks-before.ts';
import { groupOperations, isAcknowledged, type PairedOperation } from './operations.ts';
import {
  markAbove,
  NO_MARKS,
  raiseMarks,
  type SeenToken,
  type TokenMarks,
  type TokenReader,
} from './token-marks.ts';

interface Standing {
  readonly token: string | undefined;
  readonly shared: boolean;
  readonly event: HistoryEvent;
}

/** The truth, as a watch told it: grants of one lock do not stand together, and their tokens rise. */
export function checkWatchedGrants(history: History, tokens: TokenReader): Finding[] {
  const findings: Finding[] = [];
  const standing = new Map<string, Standing[]>();
  const marks = new Map<string, TokenMarks>();
  for (const event of history) {
    if (event.type !== 'info') continue;
    if (event.f !== 'grant' && event.f !== 'expiry' && event.f !== 'removal') continue;
    const { lock, token } = event;
    // Two watches may be at different places of the same truth.
    const key = JSON.stringify([event.process, lock]);
    const before = standing.get(key) ?? [];
    if (event.f !== 'grant') {
      standing.set(key, withoutOne(before, token));
      continue;
    }
    const seen = tokens.read(token, event);
    const shared = seen?.shared ?? event.shared ?? false;
    // The newest tells it: those that never end would otherwise be told of with every grant to come.
    const other = before.findLast((one) => !shared || !one.shared);
    if (other !== undefined) {
      const message = `lock "${lock}": granted ${named(token)} while the grant ${named(other.token)} stood`;
      findings.push({
        kind: 'double-grant',
        promise: 'lock',
        of: lock,
        message,
        events: [other.event, event],
      });
    }
    before.push({ token, shared, event });
    standing.set(key, before);
    if (seen === undefined) continue;
    findings.push(...outOfOrder(lock, marks.get(key) ?? NO_MARKS, seen));
    marks.set(key, raiseMarks(marks.get(key) ?? NO_MARKS, seen));
  }
  return findings;
}

/** What clients were told: who asks after another one has got the lock gets a higher token, and one of its own. */
export function checkGrants(operations: readonly PairedOperation[], tokens: TokenReader): Finding[] {
  const findings: Finding[] = [];
  const acquires = groupOperations(operations, (invoke) =>
    invoke.f === 'acquire' ? invoke.lock : undefined,
  );
  for (const [lock, ofLock] of acquires) {
    const owners = new Map<string, HistoryEvent>();
    for (const { seen, before } of withMarksBefore(ofLock, tokens)) {
      findings.push(...outOfOrder(lock, before, seen));
      const { text } = seen;
      const owner = owners.get(text);
      if (owner !== undefined) {
        const message = `lock "${lock}": two grants have the token ${text}`;
        findings.push({
          kind: 'token-reuse',
          promise: 'lock',
          of: lock,
          message,
          events: [owner, seen.event],
        });
      }
      owners.set(text, seen.event);
    }
  }
  return findings;
}

/** A client believes that it holds from the grant until it begins to release, or is told of the loss. */
export function checkOverlaps(
  history: History,
  operations: readonly PairedOperation[],
  tokens: TokenReader,
): Finding[] {
  const findings: Finding[] = [];
  const believed = new Map<string, (Standing & { readonly process: string })[]>();
  const acquires = new Map(
    operations.filter(isAcknowledged).map(({ invoke, end }) => [end as HistoryEvent, invoke]),
  );
  for (const event of history) {
    const acquire = acquires.get(event);
    if (acquire?.f === 'acquire' && event.type === 'ok') {
      const { lock } = acquire;
      const { token, process } = event;
      const shared = tokens.read(token, event)?.shared ?? acquire.shared ?? false;
      const others = believed.get(lock) ?? [];
      // As above.
      const other = others.findLast((one) => !shared || !one.shared);
      if (other !== undefined) {
        const who = `"${process}" (${named(token)}) and "${other.process}" (${named(other.token)})`;
        const message = `lock "${lock}": ${who} believed at once that they held it`;
        findings.push({ kind: 'overlap', promise: 'none', of: lock, message, events: [other.event, event] });
      }
      others.push({ token, shared, event, process });
      believed.set(lock, others);
    } else if (
      (event.type === 'invoke' && event.f === 'release') ||
      (event.type === 'info' && event.f === 'loss')
    ) {
      const all = believed.get(event.lock) ?? [];
      const own = all.filter(({ process }) => process === event.process);
      const left = withoutOne(own, event.token);
      believed.set(
        event.lock,
        all.filter((one) => one.process !== event.process || left.includes(one)),
      );
    }
  }
  return findings;
}

function outOfOrder(lock: string, before: TokenMarks, seen: SeenToken): Finding[] {
  const above = markAbove(before, seen);
  if (above === undefined) return [];
  const message = `lock "${lock}": token ${seen.text} was granted after the higher ${above.text}`;
  return [{ kind: 'token-order', promise: 'lock', of: lock, message, events: [above.event, seen.event] }];
}

/** Without the one of that token, or the oldest where no token is named. */
function withoutOne<S extends Standing>(standing: readonly S[], token: string | undefined): S[] {
  const index = token === undefined ? 0 : standing.findIndex((one) => one.token === token);
  return standing.filter((_, i) => i !== index);
}

function named(token: string | undefined): string {
  return token === undefined ? 'without a token' : `of token ${token}`;
}
