// The one object that is guarded: a line of JSON with the guard's state, then the value's bytes as they are.
// Its content never repeats, since every write has an id of its own: so its ETag never does, also where that
// is the MD5 of the content, and a write prepared against an older one can never apply.
import { randomBytes } from 'node:crypto';
import { FencingToken, type GuardMark, type GuardState } from '@lockkeeper/fencing';

/** How many earlier writes an object remembers, to tell later whether a write of doubtful ending is one. */
export const REMEMBERED_WRITES = 24;

/** What the guarded object says. */
export interface GuardRecord {
  /** `undefined` until the first token. */
  readonly state: GuardState | undefined;
  /** The id of the write that made this record. */
  readonly write: string;
  /** The ids of the writes before it, the latest first. */
  readonly before: readonly string[];
  /** `undefined` until the first value. */
  readonly value: GuardedBytes | undefined;
}

export interface GuardedBytes {
  readonly bytes: Uint8Array;
  readonly contentType: string;
}

/** A record as the store has it. */
export interface StoredRecord {
  readonly record: GuardRecord;
  readonly etag: string;
}

/** The record of a new write on top of `base`. */
export function nextRecord(
  base: GuardRecord | undefined,
  state: GuardState | undefined,
  value: GuardedBytes | undefined,
): GuardRecord {
  const before = base === undefined ? [] : [base.write, ...base.before].slice(0, REMEMBERED_WRITES);
  return { state, write: randomBytes(12).toString('base64url'), before, value };
}

export function encodeRecord({ state, write, before, value }: GuardRecord): Uint8Array {
  const head = {
    lockkeeper: 1,
    token: state === undefined ? null : `${state.token}`,
    sealed: state?.sealed ?? false,
    ...(state?.writer && { writer: state.writer }),
    write,
    before,
    contentType: value?.contentType ?? null,
  };
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), value?.bytes ?? Buffer.alloc(0)]);
}

/** `undefined` where the bytes are no record of this version. */
export function decodeRecord(bytes: Uint8Array): GuardRecord | undefined {
  const end = bytes.indexOf(0x0a);
  if (end < 0) return undefined;
  try {
    const head = JSON.parse(Buffer.from(bytes.subarray(0, end)).toString()) as Record<string, unknown>;
    const { lockkeeper, token, sealed, writer, write, before, contentType } = head;
    const valid = lockkeeper === 1 && isId(write) && Array.isArray(before) && before.every(isId);
    if (!valid) return undefined;
    const state = token === null ? undefined : stateOf({ token, sealed }, writer);
    const value = contentType === null ? undefined : { bytes: bytes.subarray(end + 1), contentType };
    if (value !== undefined && typeof value.contentType !== 'string') return undefined;
    return { state, write, before, value: value as GuardedBytes | undefined };
  } catch {
    // Neither JSON nor a token: somebody else's object.
    return undefined;
  }
}

/** A mark as JSON has it: a token is its text. */
interface ParsedMark {
  readonly token?: unknown;
  readonly sealed?: unknown;
}

/** @throws where it is the state of no guard. */
function stateOf(highest: ParsedMark, writer: unknown): GuardState {
  if (writer === undefined) return markOf(highest);
  return { ...markOf(highest), writer: markOf(writer as ParsedMark) };
}

function markOf({ token, sealed }: ParsedMark): GuardMark {
  if (typeof sealed !== 'boolean') throw new TypeError('no mark');
  return { token: FencingToken.parse(token as string), sealed };
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
