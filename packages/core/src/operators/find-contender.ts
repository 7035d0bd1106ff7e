import { FencingToken } from '@lockkeeper/fencing';
import type { CallOptions, Compare, Coordinator, KeySpan, KeyValue } from '../coordinator/coordinator.ts';
import { isDowngraded, readContender } from '../lock/acquisition.ts';
import {
  belongTogether,
  cameAs,
  detailsKeyOf,
  isInTheWay,
  type Mode,
  rivalsOf,
  spanOf,
} from '../lock/queue-view.ts';
import type { Found } from './breaking.ts';
import { asRange, textOf } from './inspection.ts';
import type { LockQueue } from './lock-kind.ts';
import type { Sealable } from './seal-guards.ts';

/** The contender of a queue that the token names, holder or waiter. */
export async function findContender(
  coordinator: Coordinator,
  queue: LockQueue,
  lineageKey: string,
  token: FencingToken,
  guards: readonly Sealable[],
  call: CallOptions,
): Promise<Found | undefined> {
  const candidates = await keysCreatedAt(coordinator, spanOf(queue), lineageKey, token, call);
  for (const kv of candidates) {
    const { key } = kv;
    const detailsKey = detailsKeyOf(queue, key);
    const details = detailsKey === key ? kv : (await coordinator.range({ key: detailsKey }, call)).kvs[0];
    if (details === undefined || !belongTogether(kv, details)) continue;
    if (readContender(details).acquisition !== token.acquisition) continue;
    const mode = cameAs(queue, key);
    const sort = { by: 'createRevision', order: 'descend' } as const;
    const before = { ...rivalsOf(queue, mode), maxCreateRevision: token.revision - 1n, sort, limit: 1 };
    const [last] = (await coordinator.range({ ...before, keysOnly: mode !== 'read' }, call)).kvs;
    const blocker = last !== undefined && isInTheWay(last, mode) ? last : undefined;
    const tokens = tokensOf(token, mode, isDowngraded(kv));
    return {
      held: blocker === undefined ? { tokens, guards } : undefined,
      compare: [
        { key: lineageKey, target: 'value', is: '=', to: token.lineage },
        standsAs(kv),
        ...isUnchanged(details),
        // Whoever waits must not have become the holder meanwhile, whose guards would have to be sealed.
        ...(blocker === undefined ? [] : [standsAs(blocker)]),
      ],
      keys: [...new Set([key, details.key])],
    };
  }
  return undefined;
}

/** A writer's guards may know it as a reader before etcd does. */
function tokensOf(token: FencingToken, mode: Mode | undefined, becameReader: boolean): FencingToken[] {
  const inMode = (shared: boolean) => new FencingToken({ ...token, shared });
  if (mode === undefined) return [inMode(false)];
  return mode === 'read' || becameReader ? [inMode(true)] : [inMode(false), inMode(true)];
}

/** None where etcd is in another history. Ours puts one key a revision into a queue; another program may put several. */
export async function keysCreatedAt(
  coordinator: Coordinator,
  span: KeySpan,
  lineageKey: string,
  { lineage, revision }: FencingToken,
  call: CallOptions,
): Promise<readonly KeyValue[]> {
  const sort = { by: 'createRevision', order: 'descend' } as const;
  const { results } = await coordinator.txn(
    {
      compare: [],
      success: [
        { op: 'range', key: lineageKey },
        { op: 'range', ...span, maxCreateRevision: revision, sort, limit: 10 },
      ],
      failure: [],
    },
    call,
  );
  const [lineageRead, candidates] = results.map(asRange);
  if (textOf(lineageRead?.kvs[0]) !== lineage) return [];
  return (candidates?.kvs ?? []).filter(({ createRevision }) => createRevision === revision);
}

export function standsAs({ key, createRevision }: KeyValue): Compare {
  return { key, target: 'createRevision', is: '=', to: createRevision };
}

export function isUnchanged({ key, modRevision, value }: KeyValue): readonly Compare[] {
  return [
    { key, target: 'modRevision', is: '=', to: modRevision },
    { key, target: 'value', is: '=', to: value },
  ];
}
