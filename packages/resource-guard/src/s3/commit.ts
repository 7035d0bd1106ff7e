// One conditional write, carried through to one of three endings. The same bytes are sent under the same
// condition until an answer is certain, so it applies once at most: applied, it changes the ETag it needs.
import { type Budget, OutOfTime } from './budget.ts';
import { type ErrorContext, make, missingRecord, notApplied } from './errors.ts';
import {
  decodeRecord,
  encodeRecord,
  type GuardRecord,
  REMEMBERED_WRITES,
  type StoredRecord,
} from './record.ts';
import type { ObjectStore, PutReply } from './store.ts';

/** How often a write that neither applied nor was overtaken is sent. */
const TRIES = 6;
const FIRST_PAUSE_MS = 20;

/** `superseded`: certainly not applied, since another write came first; `current` is what it left. */
export type Committed =
  | { readonly kind: 'applied'; readonly current: StoredRecord }
  | { readonly kind: 'superseded'; readonly current: StoredRecord | undefined };

/** The object as it is now; `undefined` where there is none. */
export async function readRecord(
  store: ObjectStore,
  budget: Budget,
  context: ErrorContext,
): Promise<StoredRecord | undefined> {
  const found = await store.get(context.key, budget).catch((error: unknown) => {
    if (budget.abandoned) throw budget.signal.reason;
    throw notApplied(error, 'the object could not be read', context);
  });
  if (found === undefined) return undefined;
  const record = decodeRecord(found.bytes);
  if (record === undefined) throw missingRecord('holds something that no guard wrote', context);
  return { record, etag: found.etag };
}

/**
 * Puts `next` in the place of `base`.
 * @throws GuardError `unknown` where it may have been applied, or may still be; anything else: it was not.
 */
export async function commit(
  store: ObjectStore,
  base: StoredRecord | undefined,
  next: GuardRecord,
  budget: Budget,
  context: ErrorContext,
): Promise<Committed> {
  const bytes = encodeRecord(next);
  let etag = base?.etag;
  let doubt = false;
  for (let tries = 1; ; tries++) {
    const condition = etag === undefined ? 'absent' : { ifMatch: etag };
    const reply = await send(store, bytes, condition, budget, context, doubt);
    if (reply.kind === 'stored') return { kind: 'applied', current: { record: next, etag: reply.etag } };
    doubt ||= !reply.certain;
    if (reply.kind === 'failed' && !doubt) {
      throw notApplied(reply.error, 'the store refused the write', context);
    }
    const current = await lookAgain(store, budget, context, doubt, reply.error);
    if (current !== undefined && isOrFollows(current.record, next.write)) return { kind: 'applied', current };
    if (current?.record.write !== base?.record.write) {
      if (doubt && !shows(current?.record, base?.record)) throw unknown(reply.error, context);
      return { kind: 'superseded', current };
    }
    // What it was prepared against is still in force: it never arrived, or the store could not decide.
    if (tries === TRIES) {
      if (doubt) throw unknown(reply.error, context);
      throw make('retry', `the store reported a conflict ${tries} times, run it again`, reply.error, context);
    }
    etag = current?.etag;
    await pauseBefore(tries, budget, doubt, reply.error, context);
  }
}

async function send(
  store: ObjectStore,
  bytes: Uint8Array,
  condition: { readonly ifMatch: string } | 'absent',
  budget: Budget,
  context: ErrorContext,
  doubt: boolean,
): Promise<PutReply> {
  try {
    return await store.put(context.key, bytes, condition, budget);
  } catch (error) {
    throw ending(error, budget, doubt, context);
  }
}

/** After an answer that may be about an earlier try of the same write, only the object itself can tell. */
async function lookAgain(
  store: ObjectStore,
  budget: Budget,
  context: ErrorContext,
  doubt: boolean,
  cause: unknown,
): Promise<StoredRecord | undefined> {
  try {
    return await readRecord(store, budget, context);
  } catch (error) {
    throw ending(error, budget, doubt, context, cause);
  }
}

async function pauseBefore(
  tries: number,
  budget: Budget,
  doubt: boolean,
  cause: unknown,
  context: ErrorContext,
): Promise<void> {
  try {
    await budget.pause(FIRST_PAUSE_MS * 2 ** (tries - 1) * (0.5 + Math.random() / 2));
  } catch (error) {
    throw ending(error, budget, doubt, context, cause);
  }
}

/** The write goes no further. */
function ending(
  error: unknown,
  budget: Budget,
  doubt: boolean,
  context: ErrorContext,
  cause = error,
): unknown {
  if (doubt) return unknown(cause, context);
  if (budget.abandoned) return budget.signal.reason;
  if (error instanceof OutOfTime)
    return notApplied(error, 'the store did not take the write in time', context);
  return error;
}

function isOrFollows(record: GuardRecord, write: string): boolean {
  return record.write === write || record.before.includes(write);
}

/**
 * Whether `record` remembers all writes since `base`. Then one it does not name was not applied and never will
 * be: it needed the ETag of `base`, which is gone for good.
 */
function shows(record: GuardRecord | undefined, base: GuardRecord | undefined): boolean {
  if (record === undefined) return false;
  return base === undefined ? record.before.length < REMEMBERED_WRITES : record.before.includes(base.write);
}

function unknown(cause: unknown, context: ErrorContext): Error {
  return make('unknown', 'the reply to the write was lost; it may have been applied', cause, context);
}
