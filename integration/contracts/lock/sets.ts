import { isEnqueue } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Several locks as one: all or none, whatever the order, with one token. */
export function describeLockSets(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: sets`, () => {
    it('are taken in one transaction with one token, and given back together', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await keeper.lock('warm-up').acquire()).release();
      const sent = connection.sent.length;
      const hold = await keeper.locks(['b', 'a', 'b']).acquire();
      expect(connection.sent.length).toBe(sent + 1);
      expect(hold.name).toBe('b + a');
      for (const name of ['a', 'b']) {
        const [key] = await world.queue(name);
        const { kvs } = await world.raw.range({ key: `${world.namespace}/lock/${name}/${key}` });
        expect(kvs[0]?.createRevision).toBe(hold.token.revision);
      }
      expect(hold.compare()).toHaveLength(3);
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      expect([await world.queueLength('a'), await world.queueLength('b')]).toEqual([0, 0]);
    });

    it('queue with single locks, first come first served in every queue', async () => {
      const world = await newWorld();
      const [a, b, c] = [await world.keeper(), await world.keeper(), await world.keeper()];
      const single = await a.lock('x').acquire();
      const set = settled(b.locks(['x', 'y']).acquire());
      await world.until('the set queues', async () => (await world.queueLength('y')) === 1);
      const behind = settled(c.lock('y').acquire());
      await world.until('one behind the set', async () => (await world.queueLength('y')) === 2);
      await world.passTime(200);
      expect(await world.queueLength('x')).toBe(2);
      await single.release();
      const { value: both } = await soon(world, set);
      expect(both?.standing).toBe('held');
      await both?.release();
      expect((await soon(world, behind)).value?.token.revision).toBeGreaterThan(both?.token.revision ?? 0n);
    });

    it('A9: cannot deadlock, in whatever order they name the locks', async () => {
      const world = await newWorld();
      const names = ['a', 'b', 'c', 'd'];
      const keepers = await Promise.all(Array.from({ length: 4 }, () => world.keeper()));
      let inside = 0;
      let turns = 0;
      const work = keepers.flatMap((keeper, shift) =>
        Array.from({ length: 25 }, async (_, round) => {
          const order = names.map((_, index) => names[(index * (round % 2 === 0 ? 1 : 3) + shift) % 4] ?? '');
          // Any two of these have a name in common.
          await keeper.locks(order.slice(0, 3)).using({}, async () => {
            inside += 1;
            expect(inside).toBe(1);
            await world.raw.range({ key: 'anything' });
            inside -= 1;
            turns += 1;
          });
        }),
      );
      await soon(world, Promise.all(work));
      expect(turns).toBe(100);
    });

    it('tryAcquire takes all or nothing', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper({ identity: 'a' }), await world.keeper()];
      const hold = await a.lock('y').acquire();
      expect(await b.locks(['x', 'y', 'z']).tryAcquire()).toMatchObject({ holder: { identity: 'a' } });
      expect([await world.queueLength('x'), await world.queueLength('z')]).toEqual([0, 0]);
      await hold.release();
      expect((await b.locks(['x', 'y', 'z']).tryAcquire()).hold?.standing).toBe('held');
    });

    it('are lost as a whole when one key is lost, and the rest is given back', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const hold = await keeper.locks(['x', 'y']).acquire();
      await world.passTime(1_000);
      const [key] = await world.queue('x');
      const deletion = { op: 'delete', key: `${world.namespace}/lock/x/${key}` } as const;
      await world.raw.txn({ compare: [], success: [deletion], failure: [] });
      await world.until('told', () => hold.standing === 'lost');
      expect(hold.signal.reason).toMatchObject({ lossCause: 'key-deleted' });
      await world.until('the rest is free', async () => (await world.queueLength('y')) === 0);
      expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
    });

    it('are found again when the reply to the enqueue is lost, held or queued', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await keeper.lock('warm-up').acquire()).release();
      connection.loseNextReply(isEnqueue);
      const hold = await soon(world, keeper.locks(['x', 'y']).acquire());
      connection.loseNextReply(isEnqueue);
      const waiting = settled(keeper.locks(['y', 'z']).acquire());
      await world.until('queued', async () => (await world.queueLength('z')) === 1);
      await hold.release();
      expect((await soon(world, waiting)).value?.standing).toBe('held');
    });

    it('a hundred are tried like one, in one transaction, also where the reply is lost', async () => {
      const world = await newWorld();
      const [{ keeper: a, connection }, b] = [await world.faulty({ identity: 'a' }), await world.keeper()];
      const names = Array.from({ length: 100 }, (_, index) => `lock-${index}`);
      await (await a.lock('warm-up').acquire()).release();
      connection.loseNextReply(isEnqueue);
      const { hold } = await soon(world, a.locks(names).tryAcquire());
      expect(hold?.standing).toBe('held');
      expect(await b.locks(names).tryAcquire()).toMatchObject({ holder: { identity: 'a' } });
      const waiting = b.locks([...names].reverse()).acquire({ waitTimeoutMs: 0 });
      await expect(waiting).rejects.toMatchObject({
        code: 'wait-timeout',
        message: expect.stringMatching(/held by a/),
      });
      await hold?.release();
      const single = await a.lock('lock-70').acquire();
      expect(await b.locks(names).tryAcquire()).toMatchObject({ holder: { identity: 'a' } });
      expect([await world.queueLength('lock-0'), await world.queueLength('lock-99')]).toEqual([0, 0]);
      await single.release();
      const sent = connection.sent.length;
      const { hold: all } = await a.locks(names).tryAcquire();
      expect(connection.sent.length).toBe(sent + 1);
      expect(await all?.release()).toMatchObject({ outcome: 'released' });
    });

    it('a hundred may have names of full length, and are refused by their size where they are too long', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const nameOf = (letter: string, length: number) => (_: unknown, index: number) =>
        letter.repeat(length) + String(index).padStart(2, '0');
      const names = Array.from({ length: 100 }, nameOf('x', 1_022));
      const hold = await a.locks(names).acquire();
      expect((await b.locks(names).tryAcquire()).holder).toBeDefined();
      const waiting = settled(b.locks(names).acquire());
      await world.until('queued', async () => (await world.queueLength(names[99] ?? '')) === 2);
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      expect(await (await soon(world, waiting)).value?.release()).toMatchObject({ outcome: 'released' });
      const tried = await a.locks(names).tryAcquire();
      expect(tried.hold?.standing).toBe('held');
      const long = Array.from({ length: 100 }, nameOf('ä', 511));
      expect(() => a.locks(long)).toThrow(
        /names, in bytes, is 3\d{5}; expected at most 131072 for all 100 names/,
      );
    });

    it('may name a hundred locks, no more', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const names = Array.from({ length: 100 }, (_, index) => `lock-${index}`);
      const hold = await a.locks(names).acquire();
      const waiting = settled(b.locks([...names].reverse()).acquire());
      await world.until('queued', async () => (await world.queueLength('lock-99')) === 2);
      await hold.release();
      await (await soon(world, waiting)).value?.release();
      expect(await world.queueLength('lock-7')).toBe(0);
      expect(() => a.locks([...names, 'one-more'])).toThrow(/names\.length is 101/);
      expect(() => a.locks([])).toThrow(/names\.length is 0/);
      expect(() => a.locks('x' as never)).toThrow(/names is "x"/);
      expect(() => a.locks(['x', ''])).toThrow(/names\[1\] is ""/);
    });
  });
}
