// A store that ignores conditions would let every owner win. So before the first verb, conditional writes that
// must fail are tried on an object nobody uses.
import { randomUUID } from 'node:crypto';
import type { Budget } from './budget.ts';
import { type ErrorContext, make, notApplied } from './errors.ts';
import type { ObjectStore, PutCondition, PutReply } from './store.ts';

/** The buckets that passed, for each client. */
const passed = new WeakMap<object, Set<string>>();

export function hasPassed(store: ObjectStore): boolean {
  return passed.get(store.client)?.has(store.bucket) === true;
}

/**
 * @throws GuardError `unavailable` where the store does not enforce conditional writes, does not show a write
 * to the next read, or cannot be asked.
 */
export async function probe(store: ObjectStore, budget: Budget, context: ErrorContext): Promise<void> {
  const key = `${context.key}.probe-${randomUUID()}`;
  try {
    await check(store, key, budget, context);
  } finally {
    // It is nobody's object: where it may not be deleted, it stays.
    await store.remove(key, budget).catch(() => undefined);
  }
  const buckets = passed.get(store.client) ?? new Set();
  passed.set(store.client, buckets.add(store.bucket));
}

async function check(store: ObjectStore, key: string, budget: Budget, context: ErrorContext): Promise<void> {
  const ask = async <T>(request: Promise<T>): Promise<T> =>
    request.catch((error: unknown) => {
      throw notApplied(error, 'the probe of conditional writes failed', context);
    });
  const write = async (text: string, condition: PutCondition): Promise<PutReply> => {
    const reply = await ask(store.put(key, Buffer.from(text), condition, budget));
    if (reply.kind !== 'failed' && reply.kind !== 'conflict') return reply;
    throw notApplied(reply.error, 'the probe of conditional writes failed', context);
  };
  const holds = async (text: string, what: string): Promise<string> => {
    const found = await ask(store.get(key, budget));
    if (found !== undefined && Buffer.from(found.bytes).toString() === text) return found.etag;
    throw refuse(what, context);
  };
  const mustRefuse = async (condition: PutCondition, what: string) => {
    if ((await write('refused', condition)).kind === 'stored') throw refuse(what, context);
  };

  // A refusal here may come from a retry of the same write; what is there then tells.
  await write('first', 'absent');
  const first = await holds('first', 'a new object could not be read back');
  await mustRefuse('absent', 'it overwrote an existing object in spite of If-None-Match: *');
  await mustRefuse(
    { ifMatch: '"00000000000000000000000000000000"' },
    'it ignored an If-Match that did not match',
  );
  await write('second', { ifMatch: first });
  const second = await holds('second', 'a write with the right If-Match could not be read back');
  if (second === first) throw refuse('two contents have one ETag', context);
  await mustRefuse({ ifMatch: first }, 'it accepted the ETag of an older content in If-Match');
  await holds('second', 'a refused write changed the object');
}

function refuse(what: string, context: ErrorContext): Error {
  return make(
    'unavailable',
    `conditional writes not enforced by the store of bucket "${context.bucket}": ${what}. It cannot be guarded`,
    undefined,
    context,
  );
}
