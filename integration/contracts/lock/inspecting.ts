import { randomBytes } from 'node:crypto';
import { type Keeper, LockkeeperError } from '@lockkeeper/core';
import type { FencingToken } from '@lockkeeper/fencing';
import { describe, expect, expectTypeOf, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** What operators see of the locks. */
export function describeInspecting(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: inspect`, () => {
    it('the holder and the queue, in order, with the tokens that they have or will have', async () => {
      const world = await newWorld();
      const [alice, bob] = [
        await world.keeper({ identity: 'alice' }),
        await world.keeper({ identity: 'bob' }),
      ];
      const lock = alice.lock('x');
      const hold = await lock.acquire();
      const waiting = [bob.lock('x').acquire()];
      await world.until('two', async () => (await world.queueLength('x')) === 2);
      const stranger = await putStranger(world, 'lock/x');
      waiting.push(alice.lock('x').acquire());
      await world.until('four', async () => (await world.queueLength('x')) === 4);

      const picture = await alice.inspect('x');
      expect(picture).toMatchObject({ name: 'x', kind: 'lock', contenders: 4, warnings: [] });
      expect(picture.lineage).toBe(hold.token.lineage);
      const [holder, ...none] = picture.holders;
      expect(none).toEqual([]);
      expect(holder).toMatchObject({ identity: 'alice', pid: process.pid, foreign: false, mode: undefined });
      expect(`${holder?.token}`).toBe(`${hold.token}`);
      expect(holder?.revision).toBe(`${hold.token.revision}`);
      expect(holder?.lease).toBe((await world.leaseOf('x', 0)).toString(16));
      expect(holder?.ttlLeftMs).toBeGreaterThan(0);
      expect(holder?.ttlLeftMs).toBeLessThanOrEqual(5_000);
      expect(holder?.since).toMatch(/^\d{4}-\d\d-\d\dT/);
      expect(picture.waiters.map(({ identity, foreign }) => [identity, foreign])).toEqual([
        ['bob', false],
        [undefined, true],
        ['alice', false],
      ]);
      expect(picture.waiters[1]).toMatchObject({ token: undefined, lease: stranger.lease.toString(16) });
      expect(picture.waiters[1]?.ttlLeftMs).toBeGreaterThan(5_000);
      const revisions = [...picture.holders, ...picture.waiters].map(({ revision }) => BigInt(revision));
      expect([...revisions].sort((a, b) => Number(a - b))).toEqual(revisions);

      await hold.release();
      expect(`${(await waiting[0])?.token}`).toBe(`${picture.waiters[0]?.token}`);
      await (await waiting[0])?.release();
      await world.raw.revoke(stranger.lease);
      expect(`${(await soon(world, waiting[1] ?? lock.acquire())).token}`).toBe(
        `${picture.waiters[2]?.token}`,
      );
    });

    it('is ready for JSON, as are the answers that name a contender or a leader', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ identity: 'alice' });
      const hold = await keeper.lock('x').acquire();
      const term = await keeper.election('e').campaign({ value: 'v' });
      const parsed = JSON.parse(JSON.stringify(await keeper.inspect('x')));
      expect(parsed).toMatchObject({ holders: [{ identity: 'alice', token: `${hold.token}` }], waiters: [] });
      const busy = JSON.parse(JSON.stringify(await keeper.lock('x').tryAcquire()));
      expect(busy.holder).toMatchObject({ identity: 'alice', createRevision: `${hold.token.revision}` });
      const leader = JSON.parse(JSON.stringify(await keeper.election('e').leader()));
      expect(leader).toMatchObject({ value: 'v', revision: `${term.token.revision}` });
    });

    it('a free lock has nobody; of a long queue the first are shown and all are counted', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      expect(await keeper.inspect('x')).toMatchObject({
        holders: [],
        waiters: [],
        contenders: 0,
        warnings: [],
      });
      const hold = await keeper.lock('x').acquire();
      const waits = Array.from({ length: 3 }, () => settled(keeper.lock('x').acquire()));
      await world.until('four', async () => (await world.queueLength('x')) === 4);
      const picture = await keeper.inspect('x', { limit: 2 });
      expect(picture.contenders).toBe(4);
      expect(`${picture.holders[0]?.token}`).toBe(`${hold.token}`);
      expect(picture.waiters).toHaveLength(1);
      await keeper.close();
      await Promise.all(waits);
    });

    it('warns of a key without a lease, which blocks for ever, and of one that was written over', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const detached = `${world.namespace}/lock/x/1f`;
      await put(world, detached);
      const picture = await keeper.inspect('x');
      expect(picture.holders).toMatchObject([{ key: detached, lease: undefined, ttlLeftMs: undefined }]);
      expect(picture.warnings).toEqual([expect.stringMatching(/lock\/x\/1f" has no lease/)]);

      const hold = await keeper.lock('y').acquire();
      const lease = await world.leaseOf('y', 0);
      await put(world, `${world.namespace}/lock/y/${lease.toString(16)}`, lease);
      const { holders, warnings } = await keeper.inspect('y');
      expect(holders).toMatchObject([{ foreign: true, token: undefined }]);
      expect(warnings).toEqual([expect.stringContaining('was written over')]);
      await world.until('noticed', () => hold.signal.aborted);
    });

    it('where etcd does not tell the times of leases, the rest is told, with a warning', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await keeper.lock('x').acquire();
      connection.timeToLive = () => Promise.reject(new LockkeeperError('unreachable', 'no leader'));
      const { holders, warnings } = await keeper.inspect('x');
      expect(holders).toMatchObject([{ foreign: false, ttlLeftMs: undefined }]);
      expect(warnings).toEqual([expect.stringMatching(/how long 1 of 1 leases.*no leader/)]);
    });

    it('a read/write lock is held by every reader before the first writer, or by that writer', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const { read, write } = keeper.readWriteLock('x');
      const readers = [await read.acquire(), await read.acquire()];
      const count = async (contenders: number) =>
        world.until(`${contenders} contenders`, async () => {
          return (await keeper.inspect('x', { kind: 'readWrite' })).contenders === contenders;
        });
      const writing = write.acquire();
      await count(3);
      const reading = read.acquire();
      await count(4);
      const shown = await keeper.inspect('x', { kind: 'readWrite' });
      expect(shown.holders.map(({ mode, token }) => [mode, `${token}`])).toEqual(
        readers.map(({ token }) => ['read', `${token}`]),
      );
      expect(shown.waiters.map(({ mode }) => mode)).toEqual(['write', 'read']);
      for (const hold of readers) await hold.release();
      const writer = await writing;
      const later = await keeper.inspect('x', { kind: 'readWrite' });
      expect(later.holders.map(({ token }) => `${token}`)).toEqual([`${writer.token}`]);
      expect(later.waiters.map(({ mode }) => mode)).toEqual(['read']);
      expect((await keeper.inspect('x')).contenders).toBe(0);
      await writer.release();
      await (await reading).release();
    });

    it('a writer that has become a reader holds with the readers, and nothing is wrong with its key', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const { read, write } = keeper.readWriteLock('x');
      const writer = await write.acquire();
      await writer.downgrade();
      const reader = await soon(world, read.acquire());
      const { holders, waiters, warnings } = await keeper.inspect('x', { kind: 'readWrite' });
      expect(holders.map(({ mode, revision }) => [mode, revision])).toEqual(
        [writer, reader].map(({ token }) => ['read', `${token.revision}`]),
      );
      expect([waiters, warnings]).toEqual([[], []]);
    });

    it('an election shows who is behind each candidate, and what it proclaims', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ identity: 'alice' });
      const term = await keeper.election('x').campaign({ value: 'first' });
      await term.proclaim('changed');
      // Details that an earlier candidate left behind say nothing of who came after it.
      const left = await world.raw.range({
        key: `${world.namespace}/candidates/x/`,
        rangeEnd: '\0',
        limit: 1,
      });
      const stranger = await putStranger(world, 'election/x', 'other', left.kvs[0]?.value);
      const { holders, waiters, warnings } = await keeper.inspect('x', { kind: 'election' });
      expect(holders).toMatchObject([{ identity: 'alice', value: 'changed', foreign: false }]);
      expect(`${holders[0]?.token}`).toBe(`${term.token}`);
      expect(waiters).toMatchObject([
        { value: 'other', foreign: true, token: undefined, lease: stranger.lease.toString(16) },
      ]);
      expect(warnings).toEqual([]);
    });

    it('refuses what it does not know, naming it', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const refusals: [Promise<unknown>, RegExp][] = [
        [
          keeper.inspect('x', { kind: 'mutex' as never }),
          /kind is "mutex"; expected one of lock, readWrite, semaphore/,
        ],
        [keeper.inspect('x', { limit: 0 }), /limit is 0/],
        [keeper.inspect('x', null as never), /options is null/],
        [keeper.inspect(''), /name is ""/],
        [keeper.list({ kinds: ['lock', 'rw' as never] }), /kinds\[1\] is "rw"/],
        [keeper.list({ kinds: 'lock' as never }), /kinds is "lock"/],
        [keeper.list({ pageSize: 501 }), /pageSize is 501/],
      ];
      for (const [call, message] of refusals) {
        await expect(call).rejects.toMatchObject({
          code: 'invalid-option',
          message: expect.stringMatching(message),
        });
      }
    });
  });

  describe(`locks on ${where}: inspect a semaphore`, () => {
    it('the permits by slot, with their tokens, and the queue in order', async () => {
      const world = await newWorld();
      const [alice, bob] = [
        await world.keeper({ identity: 'alice' }),
        await world.keeper({ identity: 'bob' }),
      ];
      const empty = await alice.inspect('x', { kind: 'semaphore' });
      expect(empty).toMatchObject({
        permits: undefined,
        holders: [],
        waiters: [],
        contenders: 0,
        warnings: [],
      });
      const permits = [await take(alice), await take(bob)];
      const waiting = [settled(take(bob)), settled(take(alice))];
      const inLine = async (count: number) =>
        world.until(`${count} in line`, async () => {
          return (await alice.inspect('x', { kind: 'semaphore' })).contenders === count;
        });
      await inLine(4);

      const picture = await alice.inspect('x', { kind: 'semaphore' });
      expect(picture).toMatchObject({
        name: 'x',
        kind: 'semaphore',
        permits: 2,
        contenders: 4,
        warnings: [],
      });
      expect(picture.lineage).toBe(permits[0]?.token.forSlot(0).lineage);
      expect(picture.holders).toMatchObject([
        { slot: 0, identity: 'alice', pid: process.pid, foreign: false },
        { slot: 1, identity: 'bob', pid: process.pid, foreign: false },
      ]);
      // Only `forSlot` makes something of it that a guard takes and that can be compared.
      expectTypeOf(picture.holders[0]?.token).not.toExtend<FencingToken | undefined>();
      expectTypeOf(picture.waiters[0]?.token).not.toExtend<FencingToken | undefined>();
      for (const [slot, holder] of picture.holders.entries()) {
        expect(`${holder.token}`).toBe(`${permits[slot]?.token}`);
        expect(() => holder.token?.forSlot(1 - slot)).toThrow(/the permit is of slot/);
        expect(holder.since).toMatch(/^\d{4}-\d\d-\d\dT/);
        expect(holder.ttlLeftMs).toBeGreaterThan(0);
        expect(holder.ttlLeftMs).toBeLessThanOrEqual(5_000);
      }
      for (const waiter of picture.waiters) expect(waiter.token).toMatch(/^waiting as .+:\d+:.+$/);
      expect(picture.waiters.map(({ ttlLeftMs }) => ttlLeftMs !== undefined)).toEqual([true, true]);
      const parsed = JSON.parse(JSON.stringify(picture));
      expect(parsed.holders[1]).toMatchObject({ slot: 1, token: `${permits[1]?.token}` });
      const short = await alice.inspect('x', { kind: 'semaphore', limit: 3 });
      expect([short.holders.length, short.waiters.length, short.contenders]).toEqual([2, 1, 4]);

      const [next] = picture.waiters;
      await permits[1]?.release();
      await inLine(3);
      await world.until('granted', async () => {
        return (await alice.inspect('x', { kind: 'semaphore' })).holders.length === 2;
      });
      const later = await alice.inspect('x', { kind: 'semaphore' });
      expect(later.holders[1]).toMatchObject({ slot: 1, acquisition: next?.acquisition });
      await Promise.all([alice.close(), bob.close()]);
      await Promise.all(waiting);
    });

    it('warns of what takes a slot, or a place in the queue, without being a permit', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const { keeper: owner, connection } = await world.faulty();
      const folder = `${world.namespace}/semaphore/x`;
      const warnings = async () => (await keeper.inspect('x', { kind: 'semaphore' })).warnings;
      const permit = await take(owner);
      const [queued] = permit.compare();
      connection.goSilent();
      await world.raw.txn({
        compare: [],
        success: [{ op: 'delete', key: queued?.key ?? '' }],
        failure: [],
      });
      expect(await warnings()).toEqual([
        expect.stringMatching(/slots\/0" takes the slot for somebody who is not/),
      ]);
      connection.heal();
      await permit.release();
      await world.until('its slot is free', async () => (await warnings()).length === 0);

      const { lease } = await putStranger(world, 'semaphore/x/queue');
      expect(await warnings()).toEqual([
        expect.stringMatching(/another program's: it takes a permit's place/),
      ]);
      await put(world, `${folder}/slots/1`, lease);
      expect(await warnings()).toEqual([
        expect.stringMatching(/slots\/1" is another program's, and takes the slot/),
        expect.stringContaining('place in the queue'),
      ]);
      const { holders } = await keeper.inspect('x', { kind: 'semaphore' });
      expect(holders).toMatchObject([{ slot: 1, foreign: true, token: undefined }]);
      await world.raw.revoke(lease);
      await put(world, `${folder}/slots/01`);
      expect(await warnings()).toEqual([
        expect.stringMatching(/slots\/01" has no lease/),
        expect.stringMatching(/slots\/01" is no slot/),
      ]);
      await put(world, `${folder}/limit`, 0n, 'many');
      expect((await warnings())[0]).toMatch(/limit" says "many", which is no number of permits/);
    });
  });

  describe(`locks on ${where}: list`, () => {
    it('every lock that somebody stands in line for, by name, whatever the size of the pages', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ identity: 'alice' });
      expect(await keeper.list()).toEqual([]);
      const odd = ['a/b', 'a%2Fb', 'ü ✓', 'a', '100%', '\u0000'];
      for (const name of odd) await keeper.lock(name).acquire();
      const waits = [settled(keeper.lock('a').acquire()), settled(keeper.lock('a').acquire())];
      await world.until('queued', async () => (await keeper.inspect('a')).contenders === 3);
      await keeper.readWriteLock('a').read.acquire();
      await keeper.readWriteLock('a').read.acquire();
      await keeper.election('a').campaign({ value: 'v' });
      await take(keeper, 'a');
      await (await take(keeper, 'idle')).release();
      await put(world, `${world.namespace}/semaphore/a/queue/1`);
      await putStranger(world, 'election/b', 'other');
      // The last to come, with the first of the keys.
      await put(world, `${world.namespace}/lock/a/0`);
      await put(world, `${world.namespace}/lock/no name of ours/1`);
      await put(world, `${world.namespace}/lock/100%/1`);
      await put(world, `${world.namespace}/lock/astray`);

      for (const pageSize of [1, 2, 500]) {
        const list = await keeper.list({ pageSize });
        expect(list.map(({ name, kind, holders, waiters }) => [name, kind, holders, waiters])).toEqual([
          ['\u0000', 'lock', 1, 0],
          ['100%', 'lock', 1, 0],
          ['a', 'election', 1, 0],
          ['a', 'lock', 1, 3],
          ['a', 'readWrite', 2, 0],
          ['a', 'semaphore', 1, 1],
          ['a%2Fb', 'lock', 1, 0],
          ['a/b', 'lock', 1, 0],
          ['b', 'election', 1, 0],
          ['ü ✓', 'lock', 1, 0],
        ]);
        expect(list.map(({ holder }) => holder?.identity)).toEqual(
          list.map(({ name }) => (name === 'b' ? undefined : 'alice')),
        );
        expect(JSON.parse(JSON.stringify(list))).toHaveLength(10);
      }
      const locks = await keeper.list({ kinds: ['lock'] });
      expect(locks.map(({ name }) => name)).toEqual([...odd].sort());
      for (const { name, holder } of locks) expect(holder).toEqual(await holderOf(keeper, name));
      const [permits] = await keeper.list({ kinds: ['semaphore'] });
      expect(JSON.parse(JSON.stringify(permits?.holder))).toMatchObject({
        slot: 0,
        token: expect.stringMatching(/^slot 0 of /),
      });
      expect((await keeper.list({ kinds: ['election'] })).map(({ name }) => name)).toEqual(['a', 'b']);
      await keeper.close();
      await Promise.all(waits);
    });
  });
}

const take = (keeper: Keeper, name = 'x') => keeper.semaphore(name, { permits: 2 }).acquire();

async function holderOf(keeper: Keeper, name: string): Promise<object> {
  const [holder] = (await keeper.inspect(name)).holders;
  if (holder === undefined) throw new Error(`nobody holds ${name}`);
  const { ttlLeftMs: _, value: __, ...rest } = holder;
  return rest;
}

async function put(
  world: LockWorld,
  key: string,
  lease = 0n,
  value: string | Uint8Array = '',
): Promise<void> {
  await world.raw.txn({ compare: [], success: [{ op: 'put', key, value, lease }], failure: [] });
}

/** A key as `etcdctl` and Go's clients put it. */
async function putStranger(
  world: LockWorld,
  folder: string,
  value = '',
  leftBehind?: Uint8Array,
): Promise<{ lease: bigint }> {
  const lease = BigInt(randomBytes(6).readUIntBE(0, 6) + 1);
  await world.raw.grant({ lease, ttlMs: 60_000 });
  const key = `${world.namespace}/${folder}/${lease.toString(16)}`;
  if (leftBehind !== undefined)
    await put(world, key.replace('/election/', '/candidates/'), lease, leftBehind);
  await put(world, key, lease, value);
  return { lease };
}
