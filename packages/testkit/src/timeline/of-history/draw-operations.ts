import type { FailEvent, HistoryEvent, InvokeEvent, OkEvent } from '../../history/history.ts';
import type { PairedOperation } from '../../history/operations.ts';
import type { TimelineEvent } from '../model.ts';
import type { Draft, Scene } from './scene.ts';
import { detailsOf, revisionOf, tokenName } from './words.ts';

export function drawOperation(scene: Scene, operation: PairedOperation): void {
  const { invoke, end } = operation;
  const draft = scene.process(invoke.process);
  if (invoke.f === 'write') drawWrite(scene, operation, draft);
  else if (end === undefined || end.type === 'unknown') drawUnknown(scene, operation, draft);
  else {
    const place = invoke.f === 'acquire' ? laneOf(scene, end, invoke.process) : draft;
    if (!scene.places.has(end)) scene.places.set(end, place.id);
    place.events.push({ atMs: scene.at(end), ...endOf(invoke, end) });
  }
}

/** How an operation that is no write ended. */
function endOf(invoke: InvokeEvent, end: OkEvent | FailEvent): Omit<TimelineEvent, 'atMs'> {
  const on = 'resource' in invoke ? { Resource: invoke.resource } : { Lock: invoke.lock };
  const took = { 'Took ms': (end.atMs - invoke.atMs).toFixed(1) };
  const token =
    end.type === 'ok' && end.token !== undefined ? end.token : 'token' in invoke ? invoke.token : undefined;
  if (end.type === 'fail') {
    const details = detailsOf({ ...on, Error: end.error, ...took });
    return { kind: 'failed', label: `${invoke.f} failed`, token, details };
  }
  const details = detailsOf({ ...on, Entries: end.entries?.join(' '), ...took });
  switch (invoke.f) {
    case 'acquire':
      return { kind: 'acquired', label: `acquires ${tokenName(token)}`, token, details };
    case 'release':
      return { kind: 'released', label: 'releases', token, details };
    case 'claim':
      return { kind: 'claimed', label: `claims ${invoke.resource}`, token, details };
    default: {
      const read = end.value ?? (end.entries === undefined ? '' : `${end.entries.length} entries`);
      const label = `${invoke.f === 'read' && invoke.final ? 'last look' : 'reads'}${read && `: ${read}`}`;
      return { kind: 'read', label, details };
    }
  }
}

function laneOf(scene: Scene, event: HistoryEvent, process: string): Draft {
  const drafts = scene.processes.get(process) ?? [];
  return drafts.find(({ id }) => id === scene.places.get(event)) ?? scene.process(process);
}

/** Sent by the process, answered by the store. */
function drawWrite(scene: Scene, operation: PairedOperation, draft: Draft): void {
  const { invoke, end } = operation;
  if (invoke.f !== 'write') return;
  const what = invoke.value ?? invoke.entry ?? '';
  const { token, resource } = invoke;
  const store = scene.resource(resource);
  const details = { Resource: resource, Entry: invoke.entry, Value: invoke.value };
  const label = `writes ${what}`.trim();
  const sent = { kind: 'write-sent', atMs: scene.at(invoke), label, token } as const;
  draft.events.push({ ...sent, details: detailsOf(details) });
  if (end === undefined || end.type === 'unknown') {
    drawUnknown(scene, operation, draft);
    return;
  }
  scene.places.set(end, store.id);
  const harm = scene.harmful.get(end);
  const [kind, said] = end.type === 'ok' ? answerTo(harm) : refusalOf(end.error);
  const error = end.type === 'fail' ? end.error : undefined;
  const all = detailsOf({
    By: invoke.process,
    ...details,
    Error: error,
    'Took ms': (end.atMs - invoke.atMs).toFixed(1),
  });
  const of = what === '' ? '' : ` ${what}`;
  store.events.push({ kind, atMs: scene.at(end), label: `${said}${of}`, token, details: all });
  scene.arrows.push({
    from: { lane: draft.id, atMs: sent.atMs },
    to: { lane: store.id, atMs: scene.at(end) },
    kind: end.type === 'fail' ? 'refused' : harm === undefined ? 'plain' : 'harmful',
  });
}

function drawUnknown(scene: Scene, { invoke, end }: PairedOperation, draft: Draft): void {
  if (invoke.f === 'acquire') return;
  const entry = invoke.f === 'write' ? (invoke.value ?? invoke.entry) : undefined;
  const what = `${invoke.f}${entry === undefined ? '' : ` ${entry}`}: outcome unknown`;
  const error = end?.type === 'unknown' ? end.error : 'it never ended';
  const on = 'resource' in invoke ? { Resource: invoke.resource } : { Lock: invoke.lock };
  const details = detailsOf({ ...on, Entry: 'entry' in invoke ? invoke.entry : undefined, Error: error });
  const token = 'token' in invoke ? invoke.token : undefined;
  const toMs = end && scene.at(end);
  // Said once: at its end, or in it where it has none.
  const label = toMs === undefined ? what : undefined;
  draft.spans.push({ kind: 'unknown', fromMs: scene.at(invoke), toMs, label, token, details });
  if (toMs !== undefined) draft.events.push({ kind: 'unknown', atMs: toMs, label: what, token, details });
}

/** Which tokens each store still accepts, as far as acknowledged claims tell. */
export function drawClaims(scene: Scene): void {
  const last = new Map<Draft, { readonly index: number; readonly revision: bigint }>();
  const claims = scene.operations.filter(({ invoke, end }) => invoke.f === 'claim' && end?.type === 'ok');
  for (const { invoke, end } of claims.sort((a, b) => a.endedAt - b.endedAt)) {
    if (invoke.f !== 'claim' || end === undefined) continue;
    const store = scene.resource(invoke.resource);
    const before = last.get(store);
    const revision = revisionOf(invoke.token);
    if (revision === undefined || (before !== undefined && revision <= before.revision)) continue;
    const span = before && store.spans[before.index];
    if (before && span) store.spans[before.index] = { ...span, toMs: scene.at(end) };
    last.set(store, { index: store.spans.length, revision });
    // A reader's claim fences older writers, and no reader.
    const whose = invoke.token.endsWith(':shared') ? 'writers ' : before ? '' : 'accepts tokens ';
    const label = `${whose}≥ ${revision}`;
    store.spans.push({ kind: 'claim', fromMs: scene.at(end), token: invoke.token, label });
  }
}

function answerTo(harm: string | undefined): readonly [TimelineEvent['kind'], string] {
  return harm === undefined ? ['write-applied', 'applied'] : ['lost-update', harm];
}

/** What a guard refused carries the code of a rejection. */
function refusalOf(error: string | undefined): readonly [TimelineEvent['kind'], string] {
  const code = /^(stale-token|sealed|conflicting-token|foreign-lineage|unclaimed|unverified)\b/.exec(
    error ?? '',
  );
  return code === null ? ['failed', 'failed'] : ['write-refused', `refused (${code[1]})`];
}
