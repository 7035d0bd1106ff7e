// The history of one play, from what its two processes said and what was done to the first.
import { type History, type HistoryEvent, mergeHistories } from '../history/history.ts';
import type { LoggedMessage } from '../worker/worker.ts';
import type { DrillMessage } from './drill-messages.ts';
import { type DrillState, updatesIn } from './verdict.ts';

/** The storage, and the drill itself where it looks at it. */
const RESOURCE = 'resource';
const DRILL = 'drill';

export interface Told {
  readonly process: string;
  readonly update: string;
  readonly messages: readonly LoggedMessage<DrillMessage>[];
}

export interface Moments {
  readonly pausedAtMs?: number | undefined;
  readonly resumedAtMs?: number | undefined;
  readonly point: string;
}

export interface FinalLook {
  readonly fromMs: number;
  readonly toMs: number;
  readonly state: DrillState;
}

export function historyOfPlay(
  first: Told,
  second: Told,
  { pausedAtMs, resumedAtMs, point }: Moments,
  { fromMs, toMs, state }: FinalLook,
): History {
  const pauses: HistoryEvent[] = [];
  const { process } = first;
  if (pausedAtMs !== undefined) {
    pauses.push({ atMs: pausedAtMs, process, type: 'info', f: 'pause', name: point });
  }
  if (resumedAtMs !== undefined) {
    pauses.push({ atMs: resumedAtMs, process, type: 'info', f: 'resume', name: point });
  }
  const entries = updatesIn(state, [first.update, second.update]);
  const look: HistoryEvent[] = [
    { atMs: fromMs, process: DRILL, op: 1, type: 'invoke', f: 'read', resource: RESOURCE, final: true },
    { atMs: toMs, process: DRILL, op: 1, type: 'ok', value: String(state), ...(entries && { entries }) },
  ];
  return mergeHistories(eventsOf(first), eventsOf(second), pauses, look);
}

/** Each grant as the end of an acquire, and the run's write under the newest token it got. */
function eventsOf({ process, update, messages }: Told): History {
  const events: HistoryEvent[] = [];
  let op = 0;
  let newest: { readonly token: string; readonly atMs: number } | undefined;
  let end: { readonly message: DrillMessage; readonly atMs: number } | undefined;
  for (const { atMs, message } of messages) {
    if (message.type === 'granted') {
      const { lock, token, waitedMs = 0 } = message;
      op += 1;
      events.push({ atMs: atMs - waitedMs, process, op, type: 'invoke', f: 'acquire', lock });
      events.push({ atMs, process, op, type: 'ok', token });
      newest = { token, atMs };
    } else if (message.type === 'lost') {
      events.push({ atMs, process, type: 'info', f: 'loss', lock: message.lock, token: message.token });
    } else if (message.type === 'released') {
      op += 1;
      const { lock, token } = message;
      events.push({ atMs, process, op, type: 'invoke', f: 'release', lock, token });
      events.push({ atMs, process, op, type: 'ok' });
    } else if (message.type === 'done' || message.type === 'failed') {
      end = { message, atMs };
    }
  }
  const beganAtMs = newest?.atMs ?? messages[0]?.atMs;
  if (beganAtMs === undefined) return events;
  op += 1;
  const write = { f: 'write', resource: RESOURCE, entry: update, token: newest?.token } as const;
  events.push({ atMs: beganAtMs, process, op, type: 'invoke', ...write });
  if (end?.message.type === 'done') events.push({ atMs: end.atMs, process, op, type: 'ok' });
  if (end?.message.type === 'failed') {
    const type = end.message.rejected ? 'fail' : 'unknown';
    events.push({ atMs: end.atMs, process, op, type, error: end.message.error });
  }
  return events.toSorted((a, b) => a.atMs - b.atMs);
}
