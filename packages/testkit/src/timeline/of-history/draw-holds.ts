import type { HistoryEvent } from '../../history/history.ts';
import type { PairedOperation } from '../../history/operations.ts';
import type { Draft, Scene } from './scene.ts';
import { detailsOf, tokenName } from './words.ts';

/** The truth in etcd, where a watch told it. */
export function drawLocks(scene: Scene): void {
  const open = new Map<string, { readonly draft: Draft; readonly index: number }>();
  for (const event of scene.history) {
    if (event.type !== 'info') continue;
    if (event.f !== 'grant' && event.f !== 'expiry' && event.f !== 'removal') continue;
    const draft = scene.lock(event.lock, event.process);
    const key = JSON.stringify([event.lock, event.token]);
    scene.places.set(event, draft.id);
    if (event.f === 'grant') {
      open.set(key, { draft, index: draft.spans.length });
      draft.spans.push({
        kind: 'lease',
        fromMs: scene.at(event),
        token: event.token,
        label: tokenName(event.token),
        details: detailsOf({ Lock: event.lock, Shared: event.shared }),
      });
      continue;
    }
    const standing = open.get(key);
    const span = standing && draft.spans[standing.index];
    if (standing && span) draft.spans[standing.index] = { ...span, toMs: scene.at(event) };
    open.delete(key);
    if (event.f !== 'expiry') continue;
    const label = `lease of ${tokenName(event.token)} expired`;
    draft.events.push({ kind: 'lease-expired', atMs: scene.at(event), label, token: event.token });
  }
}

/** Waits and holds: those of one process that overlap stand on lanes of their own. */
export function drawHolds(scene: Scene): void {
  const ends = endsOfHolds(scene);
  const busyUntil = new Map<Draft, number>();
  for (const operation of scene.operations) {
    const { invoke, end } = operation;
    if (invoke.f !== 'acquire') continue;
    const [from, got] = [scene.at(invoke), end && scene.at(end)];
    const over = end?.type === 'ok' ? ends.get(end) : end;
    const until = over === undefined ? Number.POSITIVE_INFINITY : scene.at(over);
    const draft = freeDraft(scene, invoke.process, from, busyUntil);
    busyUntil.set(draft, until);
    if (end) scene.places.set(end, draft.id);
    const of = { Lock: invoke.lock, Shared: invoke.shared };
    const wait = { kind: end?.type === 'unknown' ? 'unknown' : 'wait', fromMs: from, toMs: got } as const;
    draft.spans.push({ ...wait, details: detailsOf(of) });
    if (end?.type !== 'ok' || got === undefined) continue;
    const { token } = end;
    const toMs = Number.isFinite(until) ? until : undefined;
    draft.spans.push({
      kind: 'hold',
      fromMs: got,
      toMs,
      token,
      label: tokenName(token),
      details: detailsOf(of),
    });
  }
}

function freeDraft(
  scene: Scene,
  process: string,
  from: number,
  busyUntil: ReadonlyMap<Draft, number>,
): Draft {
  const drafts = scene.processes.get(process) ?? [scene.process(process)];
  const free = drafts.find((draft) => (busyUntil.get(draft) ?? Number.NEGATIVE_INFINITY) <= from);
  if (free !== undefined) return free;
  const draft = {
    id: `process ${process} ${drafts.length}`,
    label: '',
    note: 'at once',
    spans: [],
    events: [],
  };
  drafts.push(draft);
  return draft;
}

/** By the acquisition's end, what ended the hold: its release, or the news of its loss. */
function endsOfHolds(scene: Scene): Map<HistoryEvent, HistoryEvent> {
  const ends = new Map<HistoryEvent, HistoryEvent>();
  const standing = new Map<string, { readonly token: string | undefined; readonly end: HistoryEvent }[]>();
  const acquired = new Map<HistoryEvent, PairedOperation>();
  const released = new Map<HistoryEvent, PairedOperation>();
  for (const operation of scene.operations) {
    if (operation.end === undefined) continue;
    if (operation.invoke.f === 'acquire' && operation.end.type === 'ok')
      acquired.set(operation.end, operation);
    if (operation.invoke.f === 'release') released.set(operation.end, operation);
  }
  for (const event of scene.history) {
    const acquire = acquired.get(event)?.invoke;
    const release = released.get(event)?.invoke;
    if (acquire?.f === 'acquire' && event.type === 'ok') {
      const key = JSON.stringify([event.process, acquire.lock]);
      standing.set(key, [...(standing.get(key) ?? []), { token: event.token, end: event }]);
      continue;
    }
    const over =
      release?.f === 'release' ? release : event.type === 'info' && event.f === 'loss' ? event : undefined;
    if (over === undefined) continue;
    const key = JSON.stringify([event.process, over.lock]);
    const own = standing.get(key) ?? [];
    const ended = over.token === undefined ? own[0] : own.find(({ token }) => token === over.token);
    if (ended === undefined) continue;
    ends.set(ended.end, event);
    standing.set(
      key,
      own.filter((one) => one !== ended),
    );
  }
  return ends;
}
