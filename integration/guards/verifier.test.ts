// A guard that serves others: no token advances it whose grant does not stand in etcd. One contract, on the
// coordinator in memory and on real servers.
import { type Coordinator, connect, etcdCoordinator, etcdTokenVerifier, type Keeper } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore } from '@lockkeeper/core/memory';
import { FencingToken, type Guard, type GuardAdmin, type GuardError } from '@lockkeeper/fencing';
import { verifiedGuard } from '@lockkeeper/resource-guard/http';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import {
  availableEtcdVersions,
  type EtcdServer,
  FaultyCoordinator,
  startEtcd,
  waitUntilQueued,
} from '@lockkeeper/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

/** Another client of the same etcd. */
type NewClient = () => Coordinator;

describe('in memory', () => {
  const store = memoryStore();
  describeVerifier(() => () => memoryCoordinator({ store }));
});

for (const version of await availableEtcdVersions()) {
  describe(`on etcd ${version}`, () => {
    let server: EtcdServer;
    beforeAll(async () => {
      server = await startEtcd({ version });
    });
    afterAll(() => server?.stop());
    describeVerifier(() => () => etcdCoordinator({ hosts: server.endpoint }));
  });
}

let namespaces = 0;

function describeVerifier(world: () => NewClient): void {
  let keeper: Keeper;
  let other: Keeper;
  /** What the service asks etcd through. */
  let asked: FaultyCoordinator;
  let guard: Guard<undefined> & GuardAdmin;
  let namespace: string;

  beforeEach(async () => {
    const client = world();
    namespaces += 1;
    namespace = `verifier ${process.pid}-${namespaces}`;
    keeper = await connect({ coordinator: client(), namespace });
    other = await connect({ coordinator: client(), namespace });
    asked = new FaultyCoordinator(client());
    const verify = etcdTokenVerifier(asked, { namespace, lock: 'invoices' });
    guard = verifiedGuard(memoryGuard({ resource: 'invoices' }), verify);
  });
  afterEach(async () => {
    await Promise.all([keeper?.close(), other?.close(), asked?.close()]);
  });

  /** Every verb refuses `token`, no effect runs, and the guard is as it was. */
  async function expectRefused(token: FencingToken, code: GuardError['code'], why: RegExp): Promise<void> {
    const before = await guard.inspect();
    let effects = 0;
    const effect = () => {
      effects += 1;
    };
    const refusal = { code, outcome: 'rejected', resource: 'invoices', message: expect.stringMatching(why) };
    await expect(guard.run(token, effect)).rejects.toMatchObject(refusal);
    await expect(guard.claim(token)).rejects.toMatchObject(refusal);
    if (code === 'unverified') await expect(guard.seal(token)).rejects.toMatchObject(refusal);
    expect(effects).toBe(0);
    expect(await guard.inspect()).toEqual(before);
  }

  const variant = (token: FencingToken, change: Partial<FencingToken>) =>
    new FencingToken({ ...token, ...change });

  it('lets the holder in: by its claim, and by a first run', async () => {
    const hold = await keeper.lock('invoices').acquire({ claims: [guard] });
    expect(await guard.run(hold.token, () => 'ran', { requireClaim: true })).toBe('ran');
    expect(await hold.release()).toMatchObject({ outcome: 'released', sealed: true });
    const next = await other.lock('invoices').acquire();
    await expect(guard.run(next.token, () => 'ran', { requireClaim: true })).rejects.toMatchObject({
      code: 'unclaimed',
    });
    expect(await guard.run(next.token, () => 'ran')).toBe('ran');
    // One lookup for each of the two tokens.
    expect(asked.sent).toHaveLength(2);
  });

  it.each(['an untouched guard', 'a guard with a holder'])(
    'nothing that was not granted advances %s',
    async (at) => {
      const hold = await keeper.lock('invoices').acquire();
      if (at === 'a guard with a holder') await guard.claim(hold.token);
      // Something the forger can point at: a revision above the holder's that is a lock's key, of another lock.
      const elsewhere = await other.lock('payments').acquire();
      const { token } = elsewhere;
      await expectRefused(token, 'unverified', /no such grant stands/);
      await expectRefused(variant(token, { acquisition: 'forged' }), 'unverified', /no such grant stands/);
      const future = token.revision + 1_000_000n;
      await expectRefused(
        variant(token, { revision: future }),
        'unverified',
        /etcd is only at revision \d+$/,
      );
      await expectRefused(variant(token, { revision: 2n ** 63n - 1n }), 'unverified', /only at revision/);
      if (at === 'an untouched guard') {
        const real = hold.token;
        await expectRefused(variant(real, { acquisition: 'forged' }), 'unverified', /no such grant stands/);
        await expectRefused(variant(real, { lineage: 'another' }), 'unverified', /another lineage/);
        // A prefix of the holder's queue is no queue of its own.
        const neighbour = await other.lock('invoices/').acquire();
        await expectRefused(neighbour.token, 'unverified', /no such grant stands/);
      } else {
        await expectRefused(variant(token, { lineage: 'another' }), 'foreign-lineage', /rebase/);
        await expectRefused(variant(hold.token, { acquisition: 'forged' }), 'conflicting-token', /rewritten/);
      }
      expect(await guard.run(hold.token, () => 'ran')).toBe('ran');
    },
  );

  it('a waiter is let in when it is its turn, not before', async () => {
    const hold = await keeper.lock('invoices').acquire({ claims: [guard] });
    const waiting = other.lock('invoices').acquire();
    const token = await queuedToken();
    await expectRefused(token, 'unverified', /still queued/);
    await hold.release();
    const next = await waiting;
    expect(`${next.token}`).toBe(`${token}`);
    // The refusal is remembered for a second; the holder never has its token that early.
    await expect
      .poll(
        () =>
          guard.claim(token).then(
            () => 'claimed',
            ({ code }) => code,
          ),
        { timeout: 10_000 },
      )
      .toBe('claimed');
  });

  it('a hold that is over: never seen it is unverified, below the mark simply stale', async () => {
    const first = await keeper.lock('invoices').acquire();
    await first.release();
    await expectRefused(first.token, 'unverified', /no such grant stands/);
    const second = await keeper.lock('invoices').acquire({ claims: [guard] });
    const lookups = asked.sent.length;
    await expectRefused(first.token, 'stale-token', /newer token/);
    await guard.seal(first.token);
    await second.release();
    await expectRefused(second.token, 'sealed', /released/);
    await guard.seal(second.token);
    expect(asked.sent).toHaveLength(lookups);
  });

  it.each(['on its lease', 'on none'])('a key that somebody else wrote, %s, is no grant', async (on) => {
    const hold = await keeper.lock('invoices').acquire();
    const prefix = `${encodeURIComponent(namespace)}/lock/invoices/`;
    const [own] = (await other.coordinator.range({ key: prefix, rangeEnd: `${prefix.slice(0, -1)}0` })).kvs;
    if (own === undefined) throw new Error('the holder has no key');
    const value = new TextDecoder().decode(own.value);
    const lease = on === 'on none' ? 0n : own.lease;
    const put = { op: 'put', key: own.key, value, lease } as const;
    const { revision } = await other.coordinator.txn({ compare: [], success: [put], failure: [] });
    await expectRefused(hold.token, 'unverified', /no such grant stands/);
    await expectRefused(variant(hold.token, { revision }), 'unverified', /no such grant stands/);
  });

  it('while etcd cannot be asked the holder goes on, and nobody new gets in', async () => {
    const hold = await keeper.lock('invoices').acquire({ claims: [guard] });
    asked.goSilent();
    expect(await guard.run(hold.token, () => 'ran')).toBe('ran');
    await guard.claim(hold.token);
    await hold.release();
    const next = await other.lock('invoices').acquire();
    const unavailable = { code: 'unavailable', outcome: 'failed' };
    await expect(guard.run(next.token, () => 'ran')).rejects.toMatchObject(unavailable);
    await expect(guard.claim(next.token)).rejects.toMatchObject(unavailable);
    expect(await guard.inspect()).toMatchObject({ token: hold.token, sealed: true });
    asked.heal();
    expect(await guard.run(next.token, () => 'ran')).toBe('ran');
  });

  it('a keeper offers one of its own namespace', async () => {
    const hold = await keeper.lock('invoices').acquire();
    const verify = other.tokenVerifier('invoices');
    await verify(hold.token);
    await expect(other.tokenVerifier('payments')(hold.token)).rejects.toMatchObject({ code: 'unverified' });
    const elsewhere = etcdTokenVerifier(asked, { lock: 'invoices', namespace: `${namespace} 2` });
    await expect(elsewhere(hold.token)).rejects.toMatchObject({ code: 'unverified' });
    expect(() => other.tokenVerifier('')).toThrow('lock is ""');
  });

  /** The token that the second in the queue will have. */
  async function queuedToken(): Promise<FencingToken> {
    const { waiters } = await waitUntilQueued(keeper, 'invoices', 1);
    return waiters[0]?.token ?? expect.unreachable();
  }
}
