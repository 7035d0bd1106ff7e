import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Closing a keeper drains, releases and leaves nothing. */
export function describeClosing(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: closing`, () => {
    it('releases what is held, fails what waits, and leaves no lease', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      await b.lock('y').acquire();
      const waiting = settled(b.lock('x').acquire());
      await world.until('b queued', async () => (await world.queueLength('x')) === 2);
      const lease = await world.leaseOf('y', 0);
      await b.close();
      expect(await waiting).toMatchObject({ error: { code: 'closed' } });
      expect(await world.queueLength('x')).toBe(1);
      expect(await world.queueLength('y')).toBe(0);
      await expect(world.raw.revoke(lease)).rejects.toMatchObject({ code: 'lease-not-found' });
      await expect(b.lock('z').acquire()).rejects.toMatchObject({ code: 'closed' });
      expect(hold.standing).toBe('held');
    });

    it('leaves no lease either when it comes while one is being granted', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 60_000 });
      connection.at('afterGrant', () => new Promise(() => {}));
      const acquiring = settled(keeper.lock('x').acquire());
      await world.until('a lease was asked for', () => connection.leases.length === 1);
      await soon(world, keeper.close());
      expect(await acquiring).toMatchObject({ error: { code: 'closed' } });
      await expect(world.raw.revoke(connection.leases[0] ?? 0n)).rejects.toMatchObject({
        code: 'lease-not-found',
      });
    });

    it('G5: thousands of nested and concurrent uses leave nothing behind', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const rounds = where.startsWith('memory') ? 1_000 : 50;
      for (let round = 0; round < rounds; round += 1) {
        const uses = Array.from({ length: 5 }, (_, index) =>
          keeper.lock(`x${index}`).using({}, () => keeper.lock(`y${index % 2}`).using({}, () => index)),
        );
        expect(await soon(world, Promise.all(uses))).toEqual([0, 1, 2, 3, 4]);
      }
      expect(await keeper.health()).toMatchObject({ holds: 0, waits: 0, unconfirmedReleases: 0 });
      const left = { key: `${world.namespace}/lock/`, rangeEnd: `${world.namespace}/lock0` };
      expect((await world.raw.range(left)).count).toBe(0);
    });

    it('rejects for nothing but a bad option', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      await expect(keeper.close({ drainTimeoutMs: -1 })).rejects.toMatchObject({ code: 'invalid-option' });
      await expect(keeper.close(null as never)).rejects.toMatchObject({ code: 'invalid-option' });
    });

    it('asks running work to stop, keeps its lock until it has, and frees it then', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      let stopped = false;
      let begun = false;
      const work = a.lock('x').using({}, async (hold) => {
        begun = true;
        await new Promise((resolve) => hold.signal.addEventListener('abort', resolve));
        expect(hold.signal.reason).toMatchObject({ code: 'closed' });
        await world.raw.range({ key: 'some last I/O' });
        expect(hold.standing).toBe('held');
        stopped = true;
        return 'drained';
      });
      await world.until('begun', () => begun);
      const next = b
        .lock('x')
        .acquire()
        .then(() => stopped);
      await world.until('b queued', async () => (await world.queueLength('x')) === 2);
      await a.close();
      expect(await work).toBe('drained');
      expect(await soon(world, next)).toBe(true);
    });

    it('work that does not stop is waited for no longer than the drain limit', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      let finish: (() => void) | undefined;
      const work = settled(
        keeper.lock('x').using(
          {},
          () =>
            new Promise<void>((resolve) => {
              finish = resolve;
            }),
        ),
      );
      await world.until('begun', () => finish !== undefined);
      await soon(world, keeper.close({ drainTimeoutMs: 200 }));
      expect(await world.queueLength('x')).toBe(0);
      finish?.();
      await work;
    });
  });
}
