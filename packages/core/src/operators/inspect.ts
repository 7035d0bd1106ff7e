import type { LockKind } from '../lock/key-layout.ts';
import { checkObject } from '../validation.ts';
import { inspectLock, type LockInspection } from './inspect-lock.ts';
import { inspectSemaphore, type SemaphoreInspection } from './inspect-semaphore.ts';
import type { InspectOptions, OperatorHost } from './inspection.ts';
import { checkKind } from './lock-kind.ts';

/** What `keeper.inspect` gives for a kind of lock. */
export type Inspection<Kind extends LockKind> = Kind extends 'semaphore'
  ? SemaphoreInspection
  : LockInspection;

/** The picture of one lock of any kind. */
export async function inspect(
  host: OperatorHost,
  name: string,
  options: InspectOptions,
): Promise<LockInspection | SemaphoreInspection> {
  checkObject('options', options);
  const kind = checkKind('kind', options.kind ?? 'lock');
  return kind === 'semaphore'
    ? inspectSemaphore(host, name, options)
    : inspectLock(host, kind, name, options);
}
