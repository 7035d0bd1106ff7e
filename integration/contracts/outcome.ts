import type { LockWorld } from './lock-world.ts';

/** Runs on while virtual time passes, so that back-offs and limits come to an end. */
export async function soon<T>(world: LockWorld, promise: Promise<T>): Promise<T> {
  let done = false;
  const outcome = promise.finally(() => (done = true));
  outcome.catch(() => undefined);
  await world.until('settled', () => done);
  return outcome;
}

export type Outcome<T> =
  | { readonly value: T; readonly error?: never }
  | { readonly error: unknown; readonly value?: never };

/** Never rejects, so that a rejection that comes before the test looks at it is no unhandled one. */
export function settled<T>(promise: Promise<T>): Promise<Outcome<T>> {
  return promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}
