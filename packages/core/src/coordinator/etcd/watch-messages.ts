import type { KeySpan, WatchEvent } from '../coordinator.ts';
import { readKeyValue, readRevision, writeSpan } from './kv-messages.ts';
import { ProtoReader } from './proto-reader.ts';
import { ProtoWriter } from './proto-writer.ts';

/**
 * What goes over a watch stream, like `kv-messages.ts` without anything in between: by the generic way an event of a queue
 * cost its waiters more than the message that it spared them.
 */

/** A `WatchResponse`. */
export interface WatchReply {
  /** Of the watch; a creation that is refused may carry another one. */
  readonly id: number;
  readonly created: boolean;
  readonly canceled: boolean;
  /** Where `canceled` because older history is gone: the first revision that is left. Else 0. */
  readonly compactRevision: bigint;
  readonly reason: string;
  /** Of the member's store, which may be far ahead of the events. */
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

/** @param startRevision - 0n: from the next revision on. */
export function encodeWatchCreate(span: KeySpan, startRevision: bigint, id: number): Buffer {
  const writer = new ProtoWriter();
  writer.number(7, id); // `WatchCreateRequest`
  writer.number(4, 1);
  if (startRevision !== 0n) writer.int64(3, startRevision);
  writeSpan(writer, span);
  writer.nested(1, 0);
  return writer.finish();
}

export function encodeWatchCancel(id: number): Buffer {
  const writer = new ProtoWriter();
  writer.number(1, id); // `WatchCancelRequest`
  writer.nested(2, 0);
  return writer.finish();
}

/** @throws RangeError for one that is cut off or malformed. */
export function decodeWatchReply(message: Buffer): WatchReply {
  const reader = new ProtoReader(message);
  const events: WatchEvent[] = [];
  let id = 0;
  let created = false;
  let canceled = false;
  let compactRevision = 0n;
  let reason = '';
  let revision = 0n;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) revision = reader.nested(readRevision);
    else if (field === 2) id = Number(reader.int64());
    else if (field === 3) created = reader.number() !== 0;
    else if (field === 4) canceled = reader.number() !== 0;
    else if (field === 5) compactRevision = reader.int64();
    else if (field === 6) reason = reader.text();
    else if (field === 11) events.push(reader.nested(readEvent));
    else reader.skip();
  }
  return { id, created, canceled, compactRevision, reason, revision, events };
}

/** `Event`. */
function readEvent(reader: ProtoReader): WatchEvent {
  let isDelete = false;
  let kv: ReturnType<typeof readKeyValue> | undefined;
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 1) isDelete = reader.number() === 1;
    else if (field === 2) kv = reader.nested(readKeyValue);
    else reader.skip();
  }
  if (kv === undefined) throw new RangeError('an event without a key');
  return isDelete ? { type: 'delete', key: kv.key, modRevision: kv.modRevision } : { type: 'put', kv };
}
