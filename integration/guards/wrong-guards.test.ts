// The contract suite, tested: each natural but wrong form of a PostgreSQL guard must fail it, in the case that
// shows its fault.
import type { Guard, GuardAdmin } from '@lockkeeper/fencing';
import { type GuardSubject, guardContract } from '@lockkeeper/resource-guard/contract';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Bank } from './account.ts';
import {
  type AccountHandle,
  existsGuard,
  foldedGuard,
  oneMarkGuard,
  snapshotGuard,
  writersMarkGuard,
} from './wrong-guards.ts';

let server: PostgresServer;
let bank: Bank;

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

type Form = (pool: pg.Pool, resource: string) => Guard<AccountHandle>;

function subjectOf(form: Form): GuardSubject<AccountHandle> {
  const pools = [bank.newPool(), bank.newPool()] as const;
  const access = {
    read: (handle: AccountHandle) => handle.read(),
    write: (handle: AccountHandle, value: string) => handle.write(value),
  };
  return {
    name: form.name,
    // Even on a machine that is busy elsewhere, what resolves too early does so within this.
    temptationMs: 500,
    open: async () => {
      const resource = await bank.newAccount();
      const guards = { guard: form(pools[0], resource), other: form(pools[1], resource) };
      return bank.fixture(resource, guards, access, async () => {});
    },
  };
}

/** In memory, without `inspect`. */
function subjectOver(form: (right: Guard & GuardAdmin) => Guard): GuardSubject<unknown> {
  return {
    name: form.name,
    open: async () => {
      let text = '';
      const guard = form(memoryGuard({ resource: 'account' }));
      const write = async (_: unknown, next: string) => {
        text = next;
      };
      return { guard, other: guard, value: { read: async () => text, write, peek: async () => text } };
    },
  };
}

/** The names of the cases that fail, with what they say. */
async function failures(form: Form): Promise<ReadonlyMap<string, string>> {
  const subject = subjectOf(form);
  const failed = new Map<string, string>();
  for (const each of guardContract) {
    await each.run(subject).catch((error: Error) => failed.set(each.name, error.message));
  }
  return failed;
}

/** Where a wrong guard hangs, its case waits for 10 s. */
const SLOW = { timeout: 180_000 };

it('finds the check in a sub-select: a write that waits for its row passes the claim', SLOW, async () => {
  const failed = await failures(existsGuard);
  expect(Object.fromEntries(failed)).toMatchObject({
    'no older write follows a claim: one that waits inside the storage': expect.stringContaining(
      'the value changed after the claim',
    ),
  });
});

it(
  'finds the claim folded into the work: nothing is promised at hand-over, and old data are read',
  SLOW,
  async () => {
    const failed = await failures(foldedGuard);
    expect(Object.fromEntries(failed)).toMatchObject({
      'a late write is refused after the claim, before the new holder wrote anything':
        expect.stringContaining('the late write was accepted'),
      'the first run of a newer token reads every write that was accepted before':
        expect.stringContaining("'' !== 'accepted'"),
    });
  },
);

it('finds the claim inside REPEATABLE READ: its snapshot is older than its lock', SLOW, async () => {
  const failed = await failures(snapshotGuard);
  expect(Object.fromEntries(failed)).toMatchObject({
    'the first run of a newer token reads every write that was accepted before':
      expect.stringContaining("'' !== 'accepted'"),
  });
});

it.each([
  [oneMarkGuard, 'an older reader goes on after a newer one has claimed', 'a newer token is in force'],
  [writersMarkGuard, "a stalled writer is refused after a reader's claim", 'the late write was accepted'],
])('finds a guard with a single mark: %o', async (form, name, why) => {
  const found = guardContract.find((each) => each.name === name);
  await expect(found?.run(subjectOver(form))).rejects.toThrow(why);
});

it('ends what a failed case began, and tells the fault rather than what followed from it', async () => {
  let closed = 0;
  const broken = memoryGuard({ resource: 'broken' });
  const guard: Guard = {
    resource: 'broken',
    claim: () => Promise.reject(new Error('the fault')),
    seal: (presented) => broken.seal(presented),
    run: (presented, effect, options) => broken.run(presented, effect, options),
  };
  const subject: GuardSubject<unknown> = {
    name: 'broken',
    open: async () => ({
      guard,
      other: guard,
      value: {
        read: async () => '',
        write: async () => {},
        peek: async () => '',
        holdWrites: async () => ({
          reached: Promise.resolve(),
          letGo: () => Promise.reject(new Error('cannot let go')),
        }),
      },
      close: async () => {
        closed += 1;
        throw new Error('cannot close');
      },
    }),
  };
  const cases = guardContract.filter((each) => each.needs === 'held-writes');
  for (const each of cases) await expect(each.run(subject)).rejects.toThrow('the fault');
  expect([cases.length > 0, closed]).toEqual([true, cases.length]);
});
