import type { Keeper, Permit, Txn } from '@lockkeeper/core';
import { FencingToken } from '@lockkeeper/fencing';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** So many at once and no more, each with a slot of its own. */
export function describeSemaphores(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: semaphores`, () => {
    it('hands out each slot once, then makes the next one wait for the first that is given back', async () => {
      const world = await newWorld();
      const keepers = await keepersOf(world, 4);
      const permits: Permit[] = [];
      for (const keeper of keepers.slice(0, 3)) permits.push(await take(keeper));
      expect(permits.map(({ slot }) => slot)).toEqual([0, 1, 2]);
      const waiting = settled(take(keepers[3]));
      await inLine(world, 4);
      await world.passTime(300);
      expect(await keepers[0]?.semaphore('x', { permits: 3 }).available()).toBe(0);
      expect(await permits[1]?.release()).toMatchObject({ outcome: 'released' });
      const { value: next } = await soon(world, waiting);
      expect(next?.slot).toBe(1);
      expect(String(next?.token)).toMatch(/^slot 1 of /);
      expect(next?.token.forSlot(1).revision).toBeGreaterThan(permits[1]?.token.forSlot(1).revision ?? 0n);
      expect(() => next?.token.forSlot(0)).toThrow(/slot is 0; the permit is of slot 1/);
    });

    it('is fair: waiters are served in the order in which they queued', async () => {
      const world = await newWorld();
      const keepers = await keepersOf(world, 6);
      const held = [await take(keepers[0], 2), await take(keepers[1], 2)];
      const served: Permit[] = [];
      const order: number[] = [];
      for (const [index, keeper] of keepers.slice(2).entries()) {
        void take(keeper, 2).then((permit) => {
          served.push(permit);
          order.push(index);
        });
        await inLine(world, 3 + index);
      }
      for (let turn = 0; turn < 4; turn += 1) {
        await (held.shift() ?? served[turn - 2])?.release();
        await world.until('the next one is served', () => served.length === turn + 1);
        await world.passTime(50);
      }
      expect(order).toEqual([0, 1, 2, 3]);
    });

    it('whoever gives up while a slot is being taken leaves the slots of others alone', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const other = await world.keeper();
      const abort = new AbortController();
      const first = await take(other, 2);
      const heldBack = connection.holdNextBack(isGrant);
      const giving = settled(keeper.semaphore('x', { permits: 2 }).acquire({ signal: abort.signal }));
      const sendLateCopy = await heldBack;
      // Else it asks again meanwhile.
      connection.goSilent();
      // Somebody else takes the very slot that was asked for.
      await first.release();
      const permit = await take(other, 2);
      expect(permit.slot).toBe(1);
      abort.abort('enough');
      expect(await giving).toEqual({ error: 'enough' });
      connection.heal();
      await world.until('it left the line', async () => (await lineLength(world)) === 1);
      expect((await sendLateCopy()).succeeded).toBe(false);
      await world.passTime(600);
      expect(permit.standing).toBe('held');
      expect(await slots(world)).toBe(1);
    });

    it('whoever goes on to another slot does not get the first one as well, by a copy that comes late', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const other = await world.keeper();
      // The limit is stored with this grant: a late copy of the first one would want it absent.
      const early = await take(other, 2);
      const heldBack = connection.holdNextBack(isGrant);
      const taking = settled(keeper.semaphore('x', { permits: 2 }).acquire());
      const sendLateCopy = await heldBack;
      connection.goSilent();
      // Somebody else takes the very slot that was asked for.
      await early.release();
      const first = await take(other, 2);
      expect(first.slot).toBe(1);
      connection.heal();
      const { value: permit } = await soon(world, taking);
      expect(permit?.slot).toBe(0);
      await first.release();
      expect((await sendLateCopy()).succeeded).toBe(false);
      expect(await slots(world)).toBe(1);
      await permit?.release();
      expect(await slots(world)).toBe(0);
    });

    it('C9: never more than the limit, and all are there again after crashes, aborts and double releases', async () => {
      const world = await newWorld();
      const keepers = await keepersOf(world, 5);
      let inside = 0;
      let most = 0;
      const work = async (index: number) => {
        const keeper = keepers[index % 5];
        const abort = new AbortController();
        if (index % 4 === 0) void world.passTime(index % 9).then(() => abort.abort('enough'));
        const { value: permit } = await settled(
          keeper?.semaphore('x', { permits: 3, isolated: true }).acquire({ signal: abort.signal }) ??
            expect.unreachable(),
        );
        if (permit === undefined) return;
        inside += 1;
        most = Math.max(most, inside);
        for (let step = 0; step < 20; step += 1) await world.raw.range({ key: 'anything' });
        inside -= 1;
        if (index % 7 === 0) {
          // As a crash would end it: its own lease goes, and the slot with it.
          const { kvs } = await world.raw.range({ key: permit.compare()[0]?.key ?? '' });
          if (kvs[0] !== undefined) await world.raw.revoke(kvs[0].lease).catch(() => undefined);
        }
        await Promise.all([permit.release(), permit.release()]);
      };
      await soon(world, Promise.all(Array.from({ length: 50 }, (_, index) => work(index))));
      expect(most).toBeLessThanOrEqual(3);
      expect(most).toBeGreaterThan(1);
      await world.until('all are back', async () => (await slots(world)) === 0);
      await world.until('nobody is in line', async () => (await lineLength(world)) === 0);
    });

    it('tryAcquire takes what is left, and says who is first where nothing is', async () => {
      const world = await newWorld();
      const a = await world.keeper({ identity: 'a' });
      const b = await world.keeper({ identity: 'b' });
      const { permit } = await a.semaphore('x', { permits: 1 }).tryAcquire();
      expect(permit?.standing).toBe('held');
      expect(await b.semaphore('x', { permits: 1 }).tryAcquire()).toMatchObject({
        holder: { identity: 'a' },
      });
      await world.until('it left the line', async () => (await lineLength(world)) === 1);
      await permit?.release();
      expect((await b.semaphore('x', { permits: 1 }).tryAcquire()).permit?.slot).toBe(0);
    });

    it('a slot that was written over is free again once its owner has noticed', async () => {
      const world = await newWorld();
      const [a, b] = await keepersOf(world, 2);
      const permit = await take(a, 1);
      const next = settled(take(b, 1));
      await inLine(world, 2);
      const key = permit.compare()[1]?.key ?? '';
      expect(key).toContain('/slots/0');
      await world.raw.txn({ compare: [], success: [{ op: 'put', key, value: 'mine' }], failure: [] });
      await world.until('told', () => permit.signal.aborted);
      expect(permit.signal.reason).toMatchObject({ code: 'lost', lossCause: 'foreign-write' });
      expect((await soon(world, next)).value?.slot).toBe(0);
    });

    it('lockDelayMs goes by the slot: whoever follows one that vanished waits, and nobody else', async () => {
      const world = await newWorld();
      const [a, b] = await keepersOf(world, 2);
      const delayed = { lockDelayMs: 3_000 };
      const [one, two] = [
        await a?.semaphore('x', { permits: 2 }).tryAcquire(delayed),
        await b?.semaphore('x', { permits: 2 }).tryAcquire(delayed),
      ];
      expect([one?.permit?.slot, two?.permit?.slot]).toEqual([0, 1]);
      const { kvs } = await world.raw.range({ key: one?.permit?.compare()[1]?.key ?? '' });
      await world.raw.revoke(kvs[0]?.lease ?? 0n);
      const following = settled(b?.semaphore('x', { permits: 2 }).acquire(delayed) ?? expect.unreachable());
      await world.until('it has the slot', async () => (await slots(world)) === 2);
      await two?.permit?.release();
      const { permit: other } = (await b?.semaphore('x', { permits: 2 }).tryAcquire(delayed)) ?? {};
      expect(other?.slot).toBe(1);
      expect(await Promise.race([following, Promise.resolve('waits')])).toBe('waits');
      const { value: follower } = await soon(world, following);
      expect(follower?.slot).toBe(0);
      await other?.release();
      await follower?.release();
      const marks = { key: `${world.namespace}/delay/`, rangeEnd: `${world.namespace}/delay0` };
      expect((await world.raw.range(marks)).kvs).toEqual([]);
    });

    it('errors speak of a semaphore', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const permit = await take(keeper, 1);
      const waiting = settled(keeper.semaphore('x', { permits: 1 }).acquire({ waitTimeoutMs: 1_500 }));
      const { error } = await soon(world, waiting);
      expect(String(error)).toMatch(/semaphore "x": not acquired within waitTimeoutMs 1500/);
      await permit.release();
      expect(() => permit.assertHeld()).toThrow(/semaphore "x": already released/);
    });

    it('a permit is lost with its slot or with its place in line, and gives both back', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      for (const index of [0, 1]) {
        const permit = await take(keeper);
        await world.passTime(600);
        const key = permit.compare()[index]?.key ?? '';
        await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
        await world.until('told', () => permit.standing === 'lost');
        expect(permit.signal.reason).toMatchObject({ code: 'lost', lossCause: 'key-deleted' });
        await world.until(
          'both are free',
          async () => (await slots(world)) + (await lineLength(world)) === 0,
        );
      }
    });

    it('a grant whose reply is lost is found again', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await take(keeper)).release();
      connection.loseNextReply(isGrant);
      const permit = await soon(world, take(keeper));
      const [, slot] = permit.compare();
      const { kvs } = await world.raw.range({ key: slot?.key ?? '' });
      expect(kvs[0]?.modRevision).toBe(permit.token.forSlot(0).revision);
      expect(await permit.release()).toMatchObject({ outcome: 'released' });
      expect((await slots(world)) + (await lineLength(world))).toBe(0);
    });

    it('the guard of a slot is claimed before its permit is handed out', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guards = [memoryGuard({ resource: 'connection-0' }), memoryGuard({ resource: 'connection-1' })];
      const claims = (slot: number) => guards.slice(slot, slot + 1);
      const semaphore = keeper.semaphore('x', { permits: 2 });
      const [first, second] = [await semaphore.acquire({ claims }), await semaphore.acquire({ claims })];
      expect((await guards[0]?.inspect())?.token).toEqual(first.token.forSlot(0));
      expect((await guards[1]?.inspect())?.token).toEqual(second.token.forSlot(1));
      expect(first.token.forSlot(0)).toBeInstanceOf(FencingToken);
      await first.release();
      expect((await guards[0]?.inspect())?.sealed).toBe(true);
    });

    it('another number of permits is refused until somebody resizes the semaphore', async () => {
      const world = await newWorld();
      const [a, b] = await keepersOf(world, 2);
      const held = await take(a, 2);
      await expect(soon(world, take(b, 3))).rejects.toMatchObject({
        code: 'invalid-option',
        message: expect.stringMatching(/permits is 3; semaphore "x" has 2/),
      });
      const resized = await b?.semaphore('x', { permits: 2 }).resize(3);
      expect(resized?.permits).toBe(3);
      expect((await resized?.acquire())?.slot).toBe(1);
      await expect(soon(world, take(a, 2))).rejects.toThrow(/has 3 permits/);
      expect(held.standing).toBe('held');
    });

    it('whoever waits with an old number is told at once, and is not in the way of those with the new one', async () => {
      const world = await newWorld();
      const [a, b, c] = await keepersOf(world, 3);
      const held = await take(a, 1);
      const old = settled(take(b, 1));
      await inLine(world, 2);
      await world.passTime(300);
      const larger = await a?.semaphore('x', { permits: 1 }).resize(2);
      await world.until('it left', async () => (await lineLength(world)) === 1);
      expect(String((await soon(world, old)).error)).toMatch(/permits is 1; semaphore "x" has 2 permits/);
      expect((await c?.semaphore('x', { permits: 2 }).tryAcquire())?.permit?.slot).toBe(1);
      expect(await larger?.available()).toBe(0);
      expect(held.standing).toBe('held');
    });

    it('many who come at once aim at slots of their own', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      let grants = 0;
      connection.loseNextReply((txn) => {
        if (isGrant(txn)) grants += 1;
        return false;
      });
      const semaphore = keeper.semaphore('x', { permits: 40 });
      const all = Promise.all(Array.from({ length: 40 }, () => semaphore.acquire()));
      const permits = await soon(world, all);
      expect(new Set(permits.map(({ slot }) => slot)).size).toBe(40);
      // A herd would need 820.
      expect(grants).toBeLessThan(160);
    });

    it('a limit that another program wrote is told as it stands', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      await (await take(keeper)).release();
      const key = `${world.namespace}/semaphore/x/limit`;
      for (const value of [' 3\n', '03', 'three', '']) {
        await world.raw.txn({ compare: [], success: [{ op: 'put', key, value }], failure: [] });
        await expect(soon(world, take(keeper))).rejects.toMatchObject({
          code: 'invalid-option',
          message: expect.stringContaining(`has ${JSON.stringify(value)} permits in etcd`),
        });
        const { permits, warnings } = await keeper.inspect('x', { kind: 'semaphore' });
        expect(permits).toBeUndefined();
        expect(warnings.join()).toContain('which is no number of permits');
      }
      expect(await lineLength(world)).toBe(0);
    });

    it('where every slot is taken by others, an acquire waits, and says so', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const key = `${world.namespace}/semaphore/x/slots/0`;
      await world.raw.txn({ compare: [], success: [{ op: 'put', key, value: '' }], failure: [] });
      const waiting = settled(keeper.semaphore('x', { permits: 1 }).acquire({ waitTimeoutMs: 1_500 }));
      expect((await soon(world, waiting)).error).toMatchObject({ code: 'wait-timeout' });
    });

    it('refuses what cannot be meant', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      expect(() => keeper.semaphore('', { permits: 1 })).toThrow(/name is ""/);
      for (const permits of [0, -1, 1.5, Number.NaN, 1_001, '3' as never])
        expect(() => keeper.semaphore('x', { permits })).toThrow(/permits is/);
      await expect(keeper.semaphore('x', { permits: 1 }).acquire({ claims: [] as never })).rejects.toThrow(
        /claims is/,
      );
      const using = keeper.semaphore('x', { permits: 2 }).using({}, async (outer) => {
        const inner = await take(keeper, 2);
        return [outer.slot, inner.slot];
      });
      expect(await using).toEqual([0, 1]);
    });
  });
}

/** The transaction that takes a slot. */
const isGrant = (txn: Txn) =>
  txn.failure.length === 1 && txn.compare.some(({ key }) => key.endsWith('/limit'));

const keepersOf = (world: LockWorld, count: number) =>
  Promise.all(Array.from({ length: count }, () => world.keeper()));

function take(keeper: Keeper | undefined, permits = 3): Promise<Permit> {
  return keeper?.semaphore('x', { permits }).acquire() ?? expect.unreachable();
}

async function countBelow(world: LockWorld, folder: string): Promise<number> {
  const root = `${world.namespace}/semaphore/x/${folder}`;
  return (await world.raw.range({ key: `${root}/`, rangeEnd: `${root}0` })).count;
}
const slots = (world: LockWorld) => countBelow(world, 'slots');
const lineLength = (world: LockWorld) => countBelow(world, 'queue');
const inLine = (world: LockWorld, count: number) =>
  world.until(`${count} in line`, async () => (await lineLength(world)) === count);
