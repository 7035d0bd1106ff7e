import assert from 'node:assert/strict';
import { GuardError, type GuardErrorCode } from '@lockkeeper/fencing';
import type { Database, Driver } from './drivers.ts';

/** A test that any framework can run. */
export interface SqliteCase {
  readonly name: string;
  run(driver: Driver): Promise<void>;
}

export async function rejectsWith(call: Promise<unknown>, code: GuardErrorCode): Promise<GuardError> {
  const error = await call.then(
    (value) => assert.fail(`resolved with ${String(value)}; expected ${code}`),
    (reason: unknown) => reason,
  );
  return assertCode(error, code);
}

export function throwsWith(act: () => unknown, code: GuardErrorCode): GuardError {
  let value: unknown;
  try {
    value = act();
  } catch (error) {
    return assertCode(error, code);
  }
  return assert.fail(`gave ${String(value)}; expected ${code}`);
}

function assertCode(error: unknown, code: GuardErrorCode): GuardError {
  assert.ok(error instanceof GuardError, `expected a GuardError ${code}, got ${String(error)}`);
  assert.equal(error.code, code, error.message);
  return error;
}

/** The first column of the first row. */
export function firstOf(db: Database, sql: string): unknown {
  return Object.values(db.prepare(sql).get() as object)[0];
}

export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
