// For readers past the guard: what the bytes of a guarded object say.
import { GuardError, type GuardState } from '@lockkeeper/fencing';
import { decodeRecord } from './record.ts';

/** What the guarded object says to readers past the guard. */
export interface ParsedObject {
  /** `undefined` where no token has touched it. */
  readonly state: GuardState | undefined;
  /** `undefined` where no value was ever put. */
  readonly value: Uint8Array | undefined;
  readonly contentType: string | undefined;
}

/**
 * Takes apart the bytes of a GET on the guard's key.
 * @throws GuardError `not-migrated` where no guard wrote them.
 */
export function parseGuardedObject(bytes: Uint8Array): ParsedObject {
  const record = decodeRecord(bytes);
  if (record === undefined) throw new GuardError('not-migrated', 'these bytes are no object of an S3 guard');
  return { state: record.state, value: record.value?.bytes, contentType: record.value?.contentType };
}
