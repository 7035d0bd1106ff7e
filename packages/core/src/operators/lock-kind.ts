import type { KeyLayout, LockKind, Queue } from '../lock/key-layout.ts';
import { invalidOption } from '../validation.ts';

/** Where everybody waits in line to hold the same thing; the permits of a semaphore are different things. */
export type QueueKind = Exclude<LockKind, 'semaphore'>;

export const LOCK_KINDS: readonly LockKind[] = ['lock', 'readWrite', 'semaphore', 'election'];

/** @throws LockkeeperError `invalid-option` */
export function checkKind(field: string, value: unknown): LockKind {
  const kind = LOCK_KINDS.find((known) => known === value);
  if (kind === undefined) throw invalidOption(field, value, `expected one of ${LOCK_KINDS.join(', ')}`);
  return kind;
}

/** What messages call a lock of that kind. */
export function titleOfKind(kind: LockKind, name: string): string {
  return `${kind === 'readWrite' ? 'read/write lock' : kind} "${name}"`;
}

/** The queue of a name; of a read/write lock the writers', which sees the readers too. */
export interface LockQueue extends Queue {
  readonly kind: QueueKind;
  readonly name: string;
}

/** @throws LockkeeperError `invalid-option` */
export function queueOf(layout: KeyLayout, kind: QueueKind, name: string): LockQueue {
  const queue = kind === 'readWrite' ? layout.readWrite(name).write : layout[kind](name);
  return { ...queue, kind, name };
}
