import { type Hold, LockkeeperError } from '@lockkeeper/core';
import { FencingToken } from '@lockkeeper/fencing';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { isEnding } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** An operator takes a lock from one holder, or a waiter out of the queue, and touches nobody else. */
export function describeBreaking(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: break`, () => {
    it('seals, then deletes: the next in line is granted, a late write of the broken one refused', async () => {
      const world = await newWorld();
      const [owner, operator] = [await world.keeper(), await world.keeper()];
      const guard = memoryGuard({ resource: 'accounts' });
      const hold = await owner.lock('x').acquire({ claims: [guard] });
      const waiting = [operator.lock('x').acquire()];
      await world.until('two', async () => (await world.queueLength('x')) === 2);
      waiting.push(operator.lock('x').acquire());
      await world.until('three', async () => (await world.queueLength('x')) === 3);

      const { holders } = await operator.inspect('x');
      const token = JSON.parse(JSON.stringify(holders[0]?.token));
      expect(token).toBe(`${hold.token}`);
      expect(await operator.break('x', { token, guards: [guard] })).toEqual({
        outcome: 'broken',
        unsealed: [],
      });
      await expect(guard.run(hold.token, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
      await world.until('the broken holder knows', () => hold.signal.aborted);
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'key-deleted' });
      expect(await operator.break('x', { token, guards: [guard] })).toEqual({ outcome: 'not-found' });

      for (const wait of waiting) {
        const next = await soon(world, wait);
        expect(await guard.run(next.token, () => 'applied')).toBe('applied');
        await next.release();
      }
    });

    it('a waiter leaves the queue, and the tokens before and behind it stay good', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guard = memoryGuard({ resource: 'accounts' });
      const hold = await keeper.lock('x').acquire({ claims: [guard] });
      const [second, third] = [settled(keeper.lock('x').acquire()), settled(keeper.lock('x').acquire())];
      await world.until('three', async () => (await world.queueLength('x')) === 3);
      const [waiter] = (await keeper.inspect('x')).waiters;
      if (waiter?.token === undefined) throw new Error('no waiter');

      const answer = await keeper.break('x', { token: waiter.token, guards: [guard] });
      expect(answer).toEqual({ outcome: 'broken', unsealed: [] });
      expect(await soon(world, Promise.race([second, third]))).toMatchObject({
        error: { code: 'lost-while-waiting', lossCause: 'key-deleted' },
      });
      expect(await guard.run(hold.token, () => 'applied')).toBe('applied');
      await hold.release();
      const next = (await soon(world, Promise.all([second, third]))).find(({ value }) => value !== undefined);
      expect(await guard.run(next?.value?.token as FencingToken, () => 'applied')).toBe('applied');
    });

    it('a waiter that is granted in that moment is sealed before its key is deleted', async () => {
      const world = await newWorld();
      const owner = await world.keeper();
      const { keeper: operator, connection } = await world.faulty();
      const guard = memoryGuard({ resource: 'accounts' });
      const hold = await owner.lock('x').acquire({ claims: [guard] });
      const waiting = owner.lock('x').acquire({ claims: [guard] });
      await world.until('two', async () => (await world.queueLength('x')) === 2);
      const token = (await operator.inspect('x')).waiters[0]?.token;
      connection.at('beforeSend', async ({ txn }) => {
        if (txn === undefined || !isEnding(txn) || hold.standing !== 'held') return;
        await hold.release();
        await waiting;
      });
      const answer = await operator.break('x', { token: token as FencingToken, guards: [guard] });
      expect(answer).toEqual({ outcome: 'broken', unsealed: [] });
      const { token: granted } = await waiting;
      expect(`${granted}`).toBe(`${token}`);
      await expect(guard.run(granted, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
    });

    it('a token that is not in the queue finds nothing, and seals nothing', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guard = memoryGuard({ resource: 'accounts' });
      const gone = await keeper.lock('x').acquire();
      await gone.release();
      const hold = await keeper.lock('x').acquire({ claims: [guard] });
      const { lineage, revision, acquisition } = hold.token;
      const tokens = [
        gone.token,
        new FencingToken({ lineage, revision, acquisition: gone.token.acquisition }),
        new FencingToken({ lineage, revision: revision + 1n, acquisition }),
        new FencingToken({ lineage: 'another', revision, acquisition }),
      ];
      for (const token of tokens) {
        expect(await keeper.break('x', { token, guards: [guard] })).toEqual({ outcome: 'not-found' });
      }
      expect(await keeper.break('y', { token: hold.token, guards: [guard] })).toEqual({
        outcome: 'not-found',
      });
      expect(await guard.inspect()).toEqual({ token: hold.token, sealed: false });
      expect(await guard.run(hold.token, () => 'applied')).toBe('applied');
      expect(hold.standing).toBe('held');
    });

    it('a guard that cannot be sealed keeps the lock unbroken, unless forced', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const hold = await keeper.lock('x').acquire();
      const accounts = memoryGuard({ resource: 'accounts' });
      const down = { resource: 'ledger', seal: () => Promise.reject(new Error('disk full')) };
      const mute = { resource: 'mail', seal: () => new Promise<void>(() => undefined) };
      const options = { token: hold.token, guards: [accounts, down, mute], sealTimeoutMs: 200 };
      const failed = settled(keeper.break('x', options));
      await world.passTime(250);
      const { error } = await failed;
      expect(error).toMatchObject({ code: 'seal-failed', outcome: 'rejected' });
      expect(String(error)).toMatch(/"ledger".*disk full.*"mail".*sealTimeoutMs 200/);
      expect(String(error)).not.toContain('"accounts"');
      expect(await world.queueLength('x')).toBe(1);
      expect(hold.standing).toBe('held');

      const forced = settled(keeper.break('x', { ...options, force: true }));
      await world.passTime(250);
      expect(await forced).toEqual({ value: { outcome: 'broken', unsealed: ['ledger', 'mail'] } });
      expect(await world.queueLength('x')).toBe(0);
    });

    it('a lost reply is settled by looking again', async () => {
      const world = await newWorld();
      const owner = await world.keeper();
      const { keeper: operator, connection } = await world.faulty();
      const broken = async (hold: Hold) =>
        soon(world, operator.break('x', { token: hold.token, guards: [] })).then(({ outcome }) => outcome);
      connection.loseNextReply(isEnding);
      const first = await owner.lock('x').acquire();
      expect(await broken(first)).toBe('broken');
      expect(await world.queueLength('x')).toBe(0);
      // Then its slot is free again, and the next one takes it.
      await first.release();

      const held = connection.holdNextBack(isEnding);
      await world.until('all is over', async () => (await owner.health()).unconfirmedReleases === 0);
      const hold = await owner.lock('x').acquire();
      const queue = await world.queue('x');
      expect(await broken(hold)).toBe('broken');
      await hold.release();
      const next = await owner.lock('x').acquire();
      // The copy that comes late finds the very key that it was sent to delete, with a newer hold behind it.
      expect(await world.queue('x')).toEqual(queue);
      await (await held)();
      expect(await world.queue('x')).toEqual(queue);
      expect(`${(await operator.inspect('x')).holders[0]?.token}`).toBe(`${next.token}`);
    });

    it('where etcd stays out of reach, it says whether the lock may be broken', async () => {
      const world = await newWorld();
      const owner = await world.keeper();
      const { keeper: operator, connection } = await world.faulty();
      const { token } = await owner.lock('x').acquire();
      const lost = new LockkeeperError('unreachable', 'no reply');
      const endings = connection.at('beforeSend', ({ txn }) => {
        if (txn !== undefined && isEnding(txn)) throw lost;
      });
      const breaking = () =>
        soon(world, settled(operator.break('x', { token, guards: [], timeoutMs: 2_000 })));
      expect(await breaking()).toMatchObject({ error: { code: 'unreachable', outcome: 'unknown' } });
      endings.restore();
      connection.at('beforeSend', ({ txn }) => {
        if (txn !== undefined) throw lost;
      });
      expect(await breaking()).toMatchObject({ error: { code: 'unreachable', outcome: 'rejected' } });
    });

    it('takes a term of an election, details and all, and a reader of a read/write lock', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const term = await keeper.election('x').campaign({ value: 'v' });
      await term.proclaim('w');
      expect(await keysBelow(world, 'candidates')).toBe(1);
      const { token } = term;
      expect(await keeper.break('x', { token, guards: [] })).toEqual({ outcome: 'not-found' });
      expect(await keeper.break('x', { token, guards: [], kind: 'election' })).toMatchObject({
        outcome: 'broken',
      });
      expect(await keysBelow(world, 'candidates')).toBe(0);
      expect(await keeper.election('x').leader()).toBeUndefined();

      const { read, write } = keeper.readWriteLock('x');
      const readers = [await read.acquire(), await read.acquire()];
      const writing = write.acquire();
      const sealed: string[] = [];
      const guard = { resource: 'r', seal: async (token: FencingToken) => void sealed.push(`${token}`) };
      for (const { token } of readers.reverse()) {
        const answer = await keeper.break('x', { token, guards: [guard], kind: 'readWrite' });
        expect(answer).toMatchObject({ outcome: 'broken' });
      }
      expect(sealed).toEqual(readers.map(({ token }) => `${token}`));
      expect(await soon(world, writing)).toHaveProperty('standing', 'held');
    });

    it('takes a permit: seals its slot at exactly its token, deletes its keys, and the next one gets the slot', async () => {
      const world = await newWorld();
      const [owner, operator] = [await world.keeper(), await world.keeper()];
      const slots = [memoryGuard({ resource: 'seat-0' }), memoryGuard({ resource: 'seat-1' })];
      const claims = (slot: number) => slots.slice(slot, slot + 1);
      const semaphore = owner.semaphore('x', { permits: 2 });
      const [first, second] = [await semaphore.acquire({ claims }), await semaphore.acquire({ claims })];
      const waiting = operator.semaphore('x', { permits: 2 }).acquire({ claims });
      await world.until('three', async () => (await keysBelow(world, 'semaphore/x/queue')) === 3);

      const { holders } = await operator.inspect('x', { kind: 'semaphore' });
      const token = JSON.parse(JSON.stringify(holders[1]?.token));
      expect(token).toBe(`${second.token}`);
      const breaking = { kind: 'semaphore', token, guards: claims } as const;
      expect(await operator.break('x', breaking)).toEqual({ outcome: 'broken', unsealed: [] });
      await expect(slots[1]?.run(second.token.forSlot(1), () => 'late')).rejects.toMatchObject({
        code: expect.stringMatching(/sealed|stale-token/),
      });
      expect(await slots[0]?.inspect()).toEqual({ token: first.token.forSlot(0), sealed: false });
      await world.until('the broken holder knows', () => second.signal.aborted);
      expect(second.signal.reason).toMatchObject({ code: 'lost', lossCause: 'key-deleted' });
      const next = await soon(world, waiting);
      expect(next.slot).toBe(1);
      expect(await slots[1]?.run(next.token.forSlot(1), () => 'applied')).toBe('applied');
      expect(await operator.break('x', breaking)).toEqual({ outcome: 'not-found' });
      expect(first.standing).toBe('held');
      expect(next.standing).toBe('held');
      expect(await keysBelow(world, 'semaphore/x/queue')).toBe(2);
      expect(await keysBelow(world, 'semaphore/x/slots')).toBe(2);
    });

    it('takes a waiter of a semaphore out of its queue, and seals nothing', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const semaphore = keeper.semaphore('x', { permits: 1 });
      const permit = await semaphore.acquire();
      const waits = [settled(semaphore.acquire()), settled(semaphore.acquire())];
      await world.until('three', async () => (await keysBelow(world, 'semaphore/x/queue')) === 3);
      const { waiters } = await keeper.inspect('x', { kind: 'semaphore' });
      const guards = () => expect.unreachable();
      const options = { kind: 'semaphore', token: waiters[0]?.token ?? '', guards } as const;
      expect(await keeper.break('x', options)).toEqual({ outcome: 'broken', unsealed: [] });
      expect(await soon(world, Promise.race(waits))).toMatchObject({
        error: { code: 'lost-while-waiting', lossCause: 'key-deleted' },
      });
      expect(await keeper.break('x', options)).toEqual({ outcome: 'not-found' });
      expect(permit.standing).toBe('held');
      await permit.release();
      const next = (await soon(world, Promise.all(waits))).find(({ value }) => value !== undefined)?.value;
      expect(next?.standing).toBe('held');
    });

    it('a waiter of a semaphore that gets its permit in that moment is sealed by it first', async () => {
      const world = await newWorld();
      const owner = await world.keeper();
      const { keeper: operator, connection } = await world.faulty();
      const guard = memoryGuard({ resource: 'seat' });
      const guards = () => [guard];
      const semaphore = owner.semaphore('x', { permits: 1 });
      const permit = await semaphore.acquire({ claims: guards });
      const waiting = semaphore.acquire({ claims: guards });
      await world.until('two', async () => (await keysBelow(world, 'semaphore/x/queue')) === 2);
      const { waiters } = await operator.inspect('x', { kind: 'semaphore' });
      connection.at('beforeSend', async ({ txn }) => {
        if (txn === undefined || !isEnding(txn) || permit.standing !== 'held') return;
        await permit.release();
        await waiting;
      });
      const options = { kind: 'semaphore', token: waiters[0]?.token ?? '', guards } as const;
      expect(await operator.break('x', options)).toEqual({ outcome: 'broken', unsealed: [] });
      const { token } = await waiting;
      await expect(guard.run(token.forSlot(0), () => 'late')).rejects.toMatchObject({ code: 'sealed' });
      expect(await keysBelow(world, 'semaphore/x')).toBe(1);
    });

    it('takes a permit whose place in the queue is gone, and none by the token of another slot', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const { keeper: owner, connection } = await world.faulty();
      const permit = await owner.semaphore('x', { permits: 2 }).acquire();
      const guards = () => [];
      const other = `${permit.token}`.replace('slot 0', 'slot 1');
      expect(await keeper.break('x', { kind: 'semaphore', token: other, guards })).toEqual({
        outcome: 'not-found',
      });
      // It cannot give the slot back itself.
      connection.goSilent();
      const key = permit.compare()[0]?.key ?? '';
      await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
      const answer = await keeper.break('x', { kind: 'semaphore', token: permit.token, guards });
      expect(answer).toEqual({ outcome: 'broken', unsealed: [] });
      expect(await keysBelow(world, 'semaphore/x/slots')).toBe(0);
    });

    it('refuses what it does not know, naming it, before anything is sealed', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const { token } = await keeper.lock('x').acquire();
      const refusals: [object | null, RegExp][] = [
        [null, /options is null/],
        [{ token }, /guards is undefined/],
        [{ token, guards: [{}] }, /guards\[0\] is .*lacks seal\(\)/],
        [{ token: 'x:y', guards: [] }, /token is "x:y"/],
        [{ guards: [] }, /token is undefined/],
        [{ token: { ...token, revision: 5 }, guards: [] }, /revision is number 5/],
        [{ token, guards: [], kind: 'mutex' }, /kind is "mutex"/],
        [{ token, guards: [], kind: 'semaphore' }, /guards is .*expected a function from a slot/],
        [{ token, guards: () => [], kind: 'semaphore' }, /token is .*expected "slot N of lineage/],
        [{ token: 'waiting as x', guards: () => [], kind: 'semaphore' }, /token is "waiting as x"/],
        [{ token: `slot 0 of ${token}`, guards: [], kind: 'lock' }, /token is "slot 0 of/],
        [{ token, guards: [], force: 1 }, /force is 1/],
        [{ token, guards: [], sealTimeoutMs: Number.POSITIVE_INFINITY }, /sealTimeoutMs is Infinity/],
        [{ token, guards: [], timeoutMs: '5' }, /timeoutMs is "5"/],
      ];
      for (const [options, message] of refusals) {
        await expect(keeper.break('x', options as never)).rejects.toMatchObject({
          code: 'invalid-option',
          message: expect.stringMatching(message),
        });
      }
      expect(await world.queueLength('x')).toBe(1);
    });
  });
}

async function keysBelow(world: LockWorld, folder: string): Promise<number> {
  const root = `${world.namespace}/${folder}`;
  return (await world.raw.range({ key: `${root}/`, rangeEnd: `${root}0` })).count;
}
