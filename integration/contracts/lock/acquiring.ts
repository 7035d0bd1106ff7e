import type { Hold } from '@lockkeeper/core';
import type { Claimable, FencingToken } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Getting a lock, waiting for one, and giving up. */
export function describeAcquiring(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: acquiring`, () => {
    it('grants a free lock with the ModRevision of its key as the token', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const hold = await keeper.lock('invoices').acquire();
      const { kvs } = await world.raw.range({
        key: `${world.namespace}/lock/invoices/`,
        rangeEnd: `${world.namespace}/lock/invoices0`,
      });
      expect(kvs.map((kv) => kv.modRevision)).toEqual([hold.token.revision]);
      expect(kvs[0]?.createRevision).toBe(hold.token.revision);
      expect(hold.standing).toBe('held');
      expect(hold.remainingMs()).toBeGreaterThan(hold.ttlMs / 3);
      expect(() => hold.assertHeld()).not.toThrow();
    });

    it('A7: 50 acquires of one name in one process run one at a time, in queue order, with rising tokens', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const lock = keeper.lock('x');
      let counter = 0;
      let inside = 0;
      let mostInside = 0;
      const granted: { readonly call: number; readonly token: FencingToken }[] = [];
      const tasks: Promise<void>[] = [];
      for (let call = 0; call < 50; call += 1) {
        tasks.push(
          lock.using({}, async (hold) => {
            inside += 1;
            mostInside = Math.max(mostInside, inside);
            granted.push({ call, token: hold.token });
            const read = counter;
            await Promise.resolve();
            counter = read + 1;
            inside -= 1;
          }),
        );
      }
      await Promise.all(tasks);
      expect(counter).toBe(50);
      expect(mostInside).toBe(1);
      const revisions = granted.map(({ token }) => token.revision);
      expect(new Set(revisions).size).toBe(50);
      // A token is the revision at which its holder queued: rising tokens are queue order.
      expect(revisions).toEqual([...revisions].sort((a, b) => (a < b ? -1 : 1)));
      expect(await world.queueLength('x')).toBe(0);
    });

    it('A15: when one holder after another vanishes, one waiter at a time is granted, in queue order', async () => {
      const world = await newWorld();
      const keepers = await Promise.all(Array.from({ length: 12 }, () => world.keeper()));
      const granted: Hold[] = [];
      for (const [index, keeper] of keepers.entries()) {
        void settled(keeper.lock('x').acquire()).then(({ value }) => value && granted.push(value));
        await world.until('in line', async () => (await world.queueLength('x')) === index + 1);
      }
      for (let turn = 1; turn <= keepers.length; turn += 1) {
        await world.until('the next one holds', () => granted.length >= turn);
        await world.passTime(20);
        expect(granted).toHaveLength(turn);
        await world.raw.revoke(await world.leaseOf('x', 0));
      }
      const revisions = granted.map(({ token }) => token.revision);
      expect(revisions).toEqual([...revisions].sort((a, b) => (a < b ? -1 : 1)));
      expect(await world.queueLength('x')).toBe(0);
    });

    it('is fair across keepers: first come, first served', async () => {
      const world = await newWorld();
      const keepers = [await world.keeper(), await world.keeper(), await world.keeper()];
      const first = await keepers[0]?.lock('x').acquire();
      const order: number[] = [];
      const waits: Promise<void>[] = [];
      for (let turn = 0; turn < 9; turn += 1) {
        waits.push(keepers[turn % 3]?.lock('x').using({}, () => void order.push(turn)) ?? Promise.reject());
        await world.until('queued', async () => (await world.queueLength('x')) === turn + 2);
      }
      await first?.release();
      await Promise.all(waits);
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });

    it("A6: names neither collide nor stand in each other's way", async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      await world.raw.txn({
        compare: [],
        success: [{ op: 'put', key: `${world.namespace}/lock/a`, value: 'plain user key' }],
        failure: [],
      });
      const names = [
        'a/1',
        'a',
        'a/',
        'ab',
        'A',
        'a%2F1',
        '.',
        '..',
        'a\u0000b',
        'ключ',
        '🔒',
        ' ',
        'x'.repeat(1_024),
      ];
      const holds = await Promise.all(
        names.map((name) => keeper.lock(name).acquire({ waitTimeoutMs: 10_000 })),
      );
      expect(new Set(holds.map((hold) => hold.token.toString())).size).toBe(names.length);
      for (const name of ['', 'x'.repeat(4_096), '\ud800']) {
        expect(() => keeper.lock(name)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
      }
      expect(() => keeper.lock(undefined as unknown as string)).toThrow(/name is undefined/);
    });

    it('namespaces are apart: same name, both held', async () => {
      const world = await newWorld();
      const a = await world.keeper({ namespace: `${world.namespace}-a` });
      const ab = await world.keeper({ namespace: `${world.namespace}-ab` });
      await a.lock('x').acquire();
      const { hold } = await ab.lock('x').tryAcquire();
      expect(hold?.standing).toBe('held');
    });

    it('tryAcquire says who holds the lock, and queues nobody', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper({ identity: 'worker-7' }), await world.keeper()];
      const { hold } = await a.lock('x').tryAcquire();
      const busy = await b.lock('x').tryAcquire();
      expect(busy.hold).toBeUndefined();
      expect(busy.holder).toMatchObject({
        identity: 'worker-7',
        pid: process.pid,
        acquisition: hold?.token.acquisition,
        createRevision: hold?.token.revision,
      });
      expect(await world.queueLength('x')).toBe(1);
      await hold?.release();
      expect((await b.lock('x').tryAcquire()).hold?.standing).toBe('held');
    });

    it('a wait that times out says so, and leaves nothing in the queue', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      const waiting = settled(b.lock('x').acquire({ waitTimeoutMs: 1_500 }));
      await world.passTime(1_600);
      expect(await waiting).toMatchObject({ error: { code: 'wait-timeout' } });
      await world.until('the waiter has left', async () => (await world.queueLength('x')) === 1);
      expect(hold.standing).toBe('held');
      expect(await settled(b.lock('x').acquire({ waitTimeoutMs: 0 }))).toMatchObject({
        error: { code: 'wait-timeout' },
      });
    });

    it('an abort rethrows the very reason, and wakes only the one behind', async () => {
      const world = await newWorld();
      const [a, b, c] = [await world.keeper(), await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      const abort = new AbortController();
      const second = settled(b.lock('x').acquire({ signal: abort.signal }));
      await world.until('b queued', async () => (await world.queueLength('x')) === 2);
      const third = settled(c.lock('x').acquire());
      await world.until('c queued', async () => (await world.queueLength('x')) === 3);
      const reason = { my: 'reason' };
      abort.abort(reason);
      expect(await second).toEqual({ error: reason });
      await world.until('b has left', async () => (await world.queueLength('x')) === 2);
      expect(hold.standing).toBe('held');
      await hold.release();
      expect(await third).toHaveProperty('value');
      expect(await settled(b.lock('x').acquire({ signal: abort.signal }))).toEqual({ error: reason });
    });

    it('B4: the limits of a wait end with the grant', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 4_000 });
      const abort = new AbortController();
      const hold = await keeper.lock('x').acquire({ waitTimeoutMs: 3_000, signal: abort.signal });
      const { token } = hold;
      abort.abort();
      await world.passTime(3 * hold.ttlMs);
      expect(hold.standing).toBe('held');
      expect(hold.signal.aborted).toBe(false);
      expect(hold.token).toBe(token);
      expect(await world.queueLength('x')).toBe(1);
    });

    it('A1: a waiter whose lease is revoked fails then, and is never granted', async () => {
      const world = await newWorld();
      const [a, b, c] = [await world.keeper(), await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      const second = settled(b.lock('x').acquire());
      await world.until('b queued', async () => (await world.queueLength('x')) === 2);
      const third = settled(c.lock('x').acquire());
      await world.until('c queued', async () => (await world.queueLength('x')) === 3);
      await world.raw.revoke(await world.leaseOf('x', 1));
      expect(await soon(world, second)).toMatchObject({ error: { code: 'lost-while-waiting' } });
      expect(hold.standing).toBe('held');
      await hold.release();
      expect(await soon(world, third)).toHaveProperty('value');
      expect(await world.queueLength('x')).toBe(1);
    });

    it('a waiter whose key is deleted or overwritten fails then, and leaves nothing behind', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      for (const spoil of ['delete', 'put'] as const) {
        const waiting = settled(b.lock('x').acquire());
        await world.until('b queued', async () => (await world.queueLength('x')) === 2);
        const key = `${world.namespace}/lock/x/${(await world.queue('x'))[1]}`;
        await world.raw.txn({ compare: [], success: [{ op: spoil, key, value: 'foreign' }], failure: [] });
        expect(await soon(world, waiting)).toMatchObject({
          error: {
            code: 'lost-while-waiting',
            lossCause: spoil === 'delete' ? 'key-deleted' : 'foreign-write',
          },
        });
        await world.until('nothing is left of b', async () => (await world.queueLength('x')) === 1);
      }
      expect(hold.standing).toBe('held');
    });

    it('is not re-entrant, and says so at once', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const lock = keeper.lock('x');
      let later: Promise<Hold> | undefined;
      await lock.using({}, async () => {
        await expect(keeper.lock('x').acquire()).rejects.toMatchObject({ code: 'not-reentrant' });
        await keeper.lock('y').using({}, async () => {
          await expect(lock.using({}, () => 0)).rejects.toMatchObject({ code: 'not-reentrant' });
        });
        expect((await lock.tryAcquire()).hold).toBeUndefined();
        later = new Promise((resolve) => setImmediate(resolve)).then(() =>
          lock.acquire({ waitTimeoutMs: 5_000 }),
        );
      });
      // Code that the callback started but that outlives it may have the lock like anybody else.
      expect((await later)?.standing).toBe('held');
    });

    it.each([
      [{ waitTimeoutMs: Number.NaN }, /waitTimeoutMs is NaN/],
      [{ waitTimeoutMs: -1 }, /waitTimeoutMs is -1/],
      [{ waitTimeoutMs: Number.POSITIVE_INFINITY }, /waitTimeoutMs is Infinity.*leave it out/],
      [{ waitTimeoutMs: '5' as unknown as number }, /waitTimeoutMs is "5"/],
      [{ claimTimeoutMs: 0 }, /claimTimeoutMs is 0/],
      [{ signal: {} as AbortSignal }, /signal is \[object Object\]/],
      [{ claims: [{}] as unknown as Claimable[] }, /claims\[0\]/],
      [{ sealOnRelease: 1 as unknown as boolean }, /sealOnRelease is 1/],
    ])('refuses %o before anything is sent', async (options, message) => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const before = connection.sent.length;
      await expect(keeper.lock('x').acquire(options)).rejects.toThrow(message);
      await expect(keeper.lock('x').acquire(options)).rejects.toMatchObject({ code: 'invalid-option' });
      expect(connection.sent.length).toBe(before);
    });

    it.each([0, -1, 999, Number.NaN, Number.POSITIVE_INFINITY])('refuses ttlMs %s', async (ttlMs) => {
      const world = await newWorld();
      await expect(world.keeper({ ttlMs })).rejects.toThrow(/ttlMs is/);
    });

    it('waits longer than 2^31 ms can be asked for and do not end at once', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      const waiting = settled(b.lock('x').acquire({ waitTimeoutMs: 2 ** 31 }));
      await world.passTime(500);
      await hold.release();
      expect(await waiting).toHaveProperty('value');
    });
  });
}
