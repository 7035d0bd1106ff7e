import { type KeySpan, type KeyValue, prefixSpan } from './coordinator/coordinator.ts';
import { isDowngraded } from './lock/acquisition.ts';
import type { KeyLayout } from './lock/key-layout.ts';
import { invalidOption } from './validation.ts';

/** What has a queue under a name: a lock (sets of locks stand in those too), a read/write lock, an election. */
export type LockKind = 'lock' | 'readWrite' | 'election';

export const LOCK_KINDS: readonly LockKind[] = ['lock', 'readWrite', 'election'];

/** @throws LockkeeperError `invalid-option` */
export function checkKind(field: string, value: unknown): LockKind {
  const kind = LOCK_KINDS.find((known) => known === value);
  if (kind === undefined) throw invalidOption(field, value, `expected one of ${LOCK_KINDS.join(', ')}`);
  return kind;
}

/** Where the contenders of one name stand, as somebody sees it who is none of them. */
export interface LockQueue {
  readonly kind: LockKind;
  readonly name: string;
  /** Every contender's key. */
  readonly span: Required<KeySpan>;
  /** Where other keys than the contenders' own say who they are. */
  readonly details: Required<KeySpan> | undefined;
  detailsKeyOf(key: string): string;
  modeOf(key: string): Mode | undefined;
  /** Whoever has a key here that was created earlier is waited for, unless it has become a reader as well. */
  rivalsOf(mode: Mode | undefined): Required<KeySpan>;
}

/** Of read/write locks. */
export type Mode = 'read' | 'write';

/** @throws LockkeeperError `invalid-option` */
export function queueOf(layout: KeyLayout, kind: LockKind, name: string): LockQueue {
  if (kind === 'readWrite') {
    const { read, write } = layout.readWrite(name);
    // A key of neither folder, which only another program can have put, blocks writers alone: like a reader.
    const modeOf = (key: string) => (key.startsWith(write.keys) ? 'write' : 'read');
    return {
      kind,
      name,
      span: write.rivals,
      details: undefined,
      detailsKeyOf: (key) => key,
      modeOf,
      rivalsOf: (mode) => (mode === 'write' ? write.rivals : read.rivals),
    };
  }
  const { rivals, keys, details } = kind === 'lock' ? layout.lock(name) : layout.election(name);
  return {
    kind,
    name,
    span: rivals,
    details: details === undefined ? undefined : prefixSpan(details),
    detailsKeyOf: (key) => (details === undefined ? key : `${details}${key.slice(keys.length)}`),
    modeOf: () => undefined,
    rivalsOf: () => rivals,
  };
}

/** Whether the last of the earlier rivals is waited for: readers hold together, with a writer that became one too. */
export function isInTheWay(rival: KeyValue, mode: Mode | undefined): boolean {
  return mode !== 'read' || !isDowngraded(rival);
}

/** How many of the contenders, in the order in which they came, hold: the first, or every reader before a writer. */
export function countHolders(modes: readonly (Mode | undefined)[]): number {
  if (modes[0] !== 'read') return Math.min(1, modes.length);
  const firstWriter = modes.indexOf('write');
  return firstWriter < 0 ? modes.length : firstWriter;
}

/**
 * Whether it is from these details that one knows who put the key: details of an earlier candidate in the same
 * place may have been left behind.
 */
export function belongTogether(kv: KeyValue, details: KeyValue): boolean {
  return details.key === kv.key || details.modRevision === kv.createRevision;
}
