// D1: an owner pauses past its time, another takes over and writes, the first wakes up and writes. Here the
// pauses are points in the program; the demo and the scenarios freeze real processes.
import { FencingToken, type Guard } from '@lockkeeper/fencing';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

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

const A = new FencingToken({ lineage: 'main', revision: 7n, acquisition: 'A' });
const B = new FencingToken({ lineage: 'main', revision: 9n, acquisition: 'B' });

interface Store {
  /** Waits for what `pause` gives, between its check and its write. */
  add(token: FencingToken, entry: string, pause?: () => Promise<void>): Promise<void>;
  claim(token: FencingToken): Promise<void>;
  value(): Promise<string>;
}

function memoryStore(): Store {
  const guard: Guard<undefined> = memoryGuard({ resource: 'account' });
  let value = '';
  return {
    claim: (token) => guard.claim(token),
    add: (token, entry, pause) =>
      guard.run(token, async () => {
        await pause?.();
        value += entry;
      }),
    value: async () => value,
  };
}

async function postgresStore(): Promise<Store> {
  const resource = await bank.newAccount();
  const guard = postgresGuard(bank.newPool(), { resource, idleInTransactionTimeoutMs: 2_000 });
  const { read, write } = accountAccess(resource);
  return {
    claim: (token) => guard.claim(token),
    add: (token, entry, pause) =>
      guard.run(token, async (tx) => {
        const before = await read(tx);
        await pause?.();
        await write(tx, before + entry);
      }),
    value: () => bank.peek(resource),
  };
}

/** A point that an owner reaches inside its write, and stays at until it may go on. */
function pausable() {
  let arrive = () => {};
  let goOn = () => {};
  const reached = new Promise<void>((resolve) => (arrive = resolve));
  const gate = new Promise<void>((resolve) => (goOn = resolve));
  const here = () => {
    arrive();
    return gate;
  };
  return { here, reached, goOn };
}

describe.each([
  ['memory', async () => memoryStore()],
  ['PostgreSQL', postgresStore],
])('a paused owner on %s', (_, open) => {
  it('is refused when it paused before its write was sent', async () => {
    const store = await open();
    await store.claim(A);
    await store.add(A, 'a1 ');
    // A checks that it still holds, and pauses. B acquires after A's lease ran out.
    await store.claim(B);
    await store.add(B, 'b1 ');
    const late = store.add(A, 'a2 ');
    await expect(late).rejects.toMatchObject({
      code: 'stale-token',
      outcome: 'rejected',
      token: A,
      current: B,
    });
    await store.add(B, 'b2 ');
    expect(await store.value()).toBe('a1 b1 b2 ');
  });

  it('is refused also where the new owner claimed and has not written yet', async () => {
    const store = await open();
    await store.claim(A);
    await store.claim(B);
    await expect(store.add(A, 'a1 ')).rejects.toMatchObject({ code: 'stale-token' });
    expect(await store.value()).toBe('');
  });

  it('is waited for when it pauses briefly inside its write, and nothing is lost', async () => {
    const store = await open();
    await store.claim(A);
    const pause = pausable();
    const slow = store.add(A, 'a1 ', pause.here);
    await pause.reached;
    const takeover = store.claim(B).then(() => store.add(B, 'b1 '));
    setImmediate(pause.goOn);
    await Promise.all([slow, takeover]);
    expect(await store.value()).toBe('a1 b1 ');
  });
});

it('PostgreSQL ends an owner that is frozen inside its write, so that the new owner can go on', async () => {
  const store = await postgresStore();
  await store.claim(A);
  const pause = pausable();
  const frozen = store.add(A, 'a1 ', pause.here);
  await pause.reached;
  const ending = expect(frozen).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
  await store.claim(B);
  await store.add(B, 'b1 ');
  pause.goOn();
  await ending;
  await expect(store.add(A, 'a2 ')).rejects.toMatchObject({ code: 'stale-token' });
  expect(await store.value()).toBe('b1 ');
});
