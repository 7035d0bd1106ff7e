import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { isEnding } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Leases of their own, and how long a hold lasts at least and at most. */
export function describeLifetimes(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: lifetimes`, () => {
    it('an isolated hold has a lease of its own, which ends with it', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const shared = await keeper.lock('shared').acquire();
      const [a, b] = [keeper.lock('a', { isolated: true }), keeper.lock('b', { ttlMs: 20_000 })];
      const [first, second] = [await a.acquire(), await b.acquire()];
      const leases = [
        await world.leaseOf('shared', 0),
        await world.leaseOf('a', 0),
        await world.leaseOf('b', 0),
      ];
      expect(new Set(leases).size).toBe(3);
      expect([first.ttlMs, second.ttlMs]).toEqual([shared.ttlMs, 20_000]);
      await first.release();
      await world.until('its lease is gone', () => isGone(world, leases[1] ?? 0n));
      await world.raw.revoke(leases[2] ?? 0n);
      await world.until('told', () => second.standing === 'lost');
      expect(shared.standing).toBe('held');
    });

    it('isolated waiters of one keeper queue, and give nothing away when they give up', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const lock = keeper.lock('x', { isolated: true });
      const hold = await lock.acquire();
      const abort = new AbortController();
      const given = settled(lock.acquire({ signal: abort.signal }));
      await world.until('two in line', async () => (await world.queueLength('x')) === 2);
      const next = settled(lock.acquire());
      await world.until('three in line', async () => (await world.queueLength('x')) === 3);
      const lease = await world.leaseOf('x', 1);
      abort.abort('enough');
      expect(await given).toEqual({ error: 'enough' });
      await world.until('its lease is gone', () => isGone(world, lease));
      await hold.release();
      expect((await soon(world, next)).value?.standing).toBe('held');
      await soon(world, keeper.close());
      expect(await world.queueLength('x')).toBe(0);
    });

    it('maxHoldMs ends a hold although its lease is renewed, and the next one gets the lock', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const sealed: bigint[] = [];
      const guard = {
        resource: 'r',
        claim: async () => undefined,
        seal: async ({ revision }: { revision: bigint }) => void sealed.push(revision),
      };
      const hold = await a.lock('x').acquire({ maxHoldMs: 4_000, claims: [guard] });
      const signal = hold.signal;
      const next = settled(b.lock('x').acquire());
      await world.passTime(1_000);
      expect(hold.standing).toBe('held');
      const { value } = await soon(world, next);
      expect(signal.reason).toMatchObject({ code: 'lost', lossCause: 'max-hold' });
      expect(hold.standing).toBe('lost');
      expect(() => hold.assertHeld()).toThrow(/max-hold/);
      expect(sealed).toEqual([hold.token.revision]);
      expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
      expect(value?.token.revision).toBeGreaterThan(hold.token.revision);
      const ended = a.lock('y').using({ maxHoldMs: 100 }, () => world.passTime(300));
      await expect(soon(world, ended)).rejects.toMatchObject({ code: 'lost', lossCause: 'max-hold' });
    });

    it('maxHoldMs: a release that comes later does not give the lock back before the guards are sealed', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const sealing = gate();
      const guard = { resource: 'r', claim: async () => undefined, seal: () => sealing.opened };
      const hold = await keeper.lock('x').acquire({ maxHoldMs: 2_000, claims: [guard] });
      await world.until('lost', () => hold.standing === 'lost');
      expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
      await world.passTime(500);
      expect(await world.queueLength('x')).toBe(1);
      sealing.open();
      await world.until('given back', async () => (await world.queueLength('x')) === 0);
    });

    it('maxHoldMs that passes before the guards have promised fails the acquire as lost, and gives it back', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guard = memoryGuard({ resource: 'r' });
      const entered = gate();
      const finish = gate();
      const before = await keeper.lock('x').acquire();
      const running = guard.run(before.token, () => {
        entered.open();
        return finish.opened;
      });
      await entered.opened;
      await before.release();
      // The claim waits for the run that is under way.
      const acquiring = settled(keeper.lock('x').acquire({ maxHoldMs: 500, claims: [guard] }));
      await world.passTime(600);
      finish.open();
      await running;
      const { error } = await soon(world, acquiring);
      expect(error).toMatchObject({ code: 'lost-while-waiting', lossCause: 'max-hold' });
      await world.until('given back', async () => (await world.queueLength('x')) === 0);
      expect(await guard.inspect()).toMatchObject({ sealed: true });
    });

    it('minHoldMs keeps the lock taken after a release, and writes nothing more under it', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire({ minHoldMs: 4_000 });
      const releasing = hold.release();
      expect(hold.standing).toBe('released');
      await world.passTime(1_000);
      expect((await b.lock('x').tryAcquire()).hold).toBeUndefined();
      expect(await soon(world, releasing)).toMatchObject({ outcome: 'released' });
      const { hold: next } = await b.lock('x').tryAcquire();
      expect(next?.standing).toBe('held');
      await next?.release();
      const lateEnough = await a.lock('x').acquire({ minHoldMs: 200 });
      await world.passTime(300);
      await lateEnough.release();
      expect(await world.queueLength('x')).toBe(0);
    });

    it('lockDelayMs: whoever follows a holder that vanished waits, whoever follows a release does not', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const delayed = { lockDelayMs: 4_000 };
      const released = await a.lock('x').acquire(delayed);
      await released.release();
      const { hold: next } = await b.lock('x').tryAcquire(delayed);
      expect(next?.standing).toBe('held');
      await world.raw.revoke(await world.leaseOf('x', 0));
      const following = settled(a.lock('x').acquire(delayed));
      await world.until('it has the lock', async () => (await world.queueLength('x')) === 1);
      await world.passTime(1_000);
      expect(await Promise.race([following, Promise.resolve('waits')])).toBe('waits');
      const { value: follower } = await soon(world, following);
      expect(follower?.standing).toBe('held');
      await follower?.release();
      const again = await b.locks(['x', 'y']).acquire(delayed);
      expect(await again.release()).toMatchObject({ outcome: 'released' });
      const marks = { key: `${world.namespace}/delay/`, rangeEnd: `${world.namespace}/delay0` };
      expect((await world.raw.range(marks)).kvs).toEqual([]);
    });

    it('lockDelayMs: one that gave up in the delay leaves it to the next', async () => {
      const world = await newWorld();
      const [a, b, c] = [await world.keeper(), await world.keeper(), await world.keeper()];
      const delayed = { lockDelayMs: 4_000 };
      const vanishing = await a.lock('x').acquire(delayed);
      await world.raw.revoke(await world.leaseOf('x', 0));
      const abort = new AbortController();
      const impatient = settled(b.lock('x').acquire({ ...delayed, signal: abort.signal }));
      await world.passTime(500);
      abort.abort('enough');
      expect(await impatient).toEqual({ error: 'enough' });
      const next = settled(c.lock('x').acquire(delayed));
      await world.passTime(1_000);
      expect(await Promise.race([next, Promise.resolve('waits')])).toBe('waits');
      expect((await soon(world, next)).value?.standing).toBe('held');
      expect(vanishing.standing).toBe('lost');
    });

    it('lockDelayMs: whoever releases takes its mark back, also where its key turns out to be gone', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const hold = await keeper.lock('x').acquire({ lockDelayMs: 1_500 });
      const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
      const heldBack = connection.holdNextBack(isEnding);
      const releasing = soon(world, hold.release());
      await heldBack;
      await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
      // Its first copy may have been what deleted the key.
      expect(await releasing).toMatchObject({ outcome: 'released' });
      const marks = { key: `${world.namespace}/delay/`, rangeEnd: `${world.namespace}/delay0` };
      expect((await world.raw.range(marks)).kvs).toEqual([]);
    });

    it('maxHoldMs counts from the end of the delay, so that one that is shorter is no hindrance', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const limits = { lockDelayMs: 3_500, maxHoldMs: 3_000 };
      await a.lock('x').acquire(limits);
      await world.raw.revoke(await world.leaseOf('x', 0));
      const hold = await soon(world, b.lock('x').acquire(limits));
      expect(hold.standing).toBe('held');
      await world.until('over', () => hold.standing === 'lost');
      expect(hold.signal.reason).toMatchObject({ lossCause: 'max-hold' });
    });

    it('lockDelayMs is refused where readers hold together', async () => {
      const world = await newWorld();
      const { read, write } = (await world.keeper()).readWriteLock('x');
      for (const lock of [read, write])
        await expect(lock.acquire({ lockDelayMs: 1_500 })).rejects.toThrow(/lockDelayMs is 1500; .*readers/);
    });

    it.each([
      [{ lockDelayMs: -1 }, /lockDelayMs is -1/],
      [{ minHoldMs: -1 }, /minHoldMs is -1/],
      [{ maxHoldMs: 0 }, /maxHoldMs is 0/],
      [{ minHoldMs: 200, maxHoldMs: 100 }, /maxHoldMs is 100; expected milliseconds from 200/],
    ])('refuses %o before anything is sent', async (options, message) => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await expect(keeper.lock('x').acquire(options)).rejects.toThrow(message);
      expect(connection.sent.length).toBe(1);
    });

    it('refuses a lock with a lease that cannot be', async () => {
      const keeper = await (await newWorld()).keeper();
      expect(() => keeper.lock('x', { ttlMs: 10 })).toThrow(/ttlMs is 10/);
      expect(() => keeper.lock('x', { ttlMs: 10_000, isolated: false })).toThrow(/isolated is false/);
      expect(() => keeper.lock('x', { isolated: 'yes' as never })).toThrow(/isolated is "yes"/);
      expect(() => keeper.lock('x', null as never)).toThrow(/options is null/);
    });
  });
}

async function isGone(
  world: { readonly raw: { renew(lease: bigint): Promise<{ readonly ttlMs: number }> } },
  lease: bigint,
): Promise<boolean> {
  return (await world.raw.renew(lease)).ttlMs <= 0;
}

/** Something to wait for until the test lets it happen. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
