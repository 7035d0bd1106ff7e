import { fencedTxn, type Hold } from '@lockkeeper/core';
import { isEnding } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Writes inside etcd that etcd itself refuses once the hold does not stand any more. */
export function describeFencedWrites(where: string, newWorld: MakeLockWorld): void {
  const dataOf = (world: LockWorld) => `${world.namespace}-data`;
  async function textIn(world: LockWorld): Promise<string | undefined> {
    const { kvs } = await world.raw.range({ key: dataOf(world) });
    return kvs[0] && new TextDecoder().decode(kvs[0].value);
  }
  const deleteKey = (world: LockWorld, key: string) =>
    world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });

  describe(`locks on ${where}: fenced transactions`, () => {
    it('apply all of their operations in one revision while the hold stands', async () => {
      const world = await newWorld();
      const hold = await (await world.keeper()).lock('x').acquire();
      const key = dataOf(world);
      const reply = await fencedTxn(hold).put(key, '1').put(`${key}-2`, '2').range(`${key}-2`).commit();
      if (!reply.applied) expect.unreachable();
      expect(reply.results.map(({ op }) => op)).toEqual(['put', 'put', 'range']);
      const { kvs } = await world.raw.range({ key });
      expect(kvs[0]?.modRevision).toBe(reply.revision);
      await fencedTxn(hold).delete(`${key}-2`).commit();
      expect((await world.raw.range({ key: `${key}-2` })).kvs).toEqual([]);
    });

    it('tell a condition of their own that failed from a lost hold', async () => {
      const world = await newWorld();
      const hold = await (await world.keeper()).lock('x').acquire();
      const write = (expected: string, value: string) =>
        fencedTxn(hold)
          .when({ key: dataOf(world), target: 'value', is: '=', to: expected })
          .put(dataOf(world), value)
          .commit();
      await fencedTxn(hold).put(dataOf(world), '1').commit();
      expect(await write('0', '2')).toEqual({ applied: false });
      expect(hold.standing).toBe('held');
      expect(await write('1', '2')).toMatchObject({ applied: true });
      expect(await textIn(world)).toBe('2');
    });

    it.each([
      ['key-deleted', (world: LockWorld, key: string) => deleteKey(world, key)],
      [
        'foreign-write',
        (world: LockWorld, key: string) =>
          world.raw.txn({ compare: [], success: [{ op: 'put', key, value: 'mine' }], failure: [] }),
      ],
      [
        'history-regressed',
        (world: LockWorld) =>
          world.raw.txn({
            compare: [],
            success: [{ op: 'put', key: `${world.namespace}/lineage`, value: 'another' }],
            failure: [],
          }),
      ],
    ])('are refused after %s, and the hold learns it from them', async (lossCause, spoil) => {
      const world = await newWorld();
      const hold = await (await world.keeper()).lock('x').acquire();
      const key = hold.compare()[0]?.key ?? '';
      await spoil(world, key);
      const late = soon(world, fencedTxn(hold).put(dataOf(world), 'late').commit());
      await expect(late).rejects.toMatchObject({ code: 'lost', lossCause });
      expect(hold.standing).toBe('lost');
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause });
      expect(await textIn(world)).toBeUndefined();
    });

    it('are refused to a holder that slept while another one wrote', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 2_000 });
      const asleep = await keeper.lock('x').acquire();
      // Its write was prepared before the sleep, and is sent without another look at the clock.
      const late = {
        compare: asleep.compare(),
        put: { op: 'put', key: dataOf(world), value: 'late' } as const,
      };
      connection.goSilent();
      const next = await soon(world, (await world.keeper()).lock('x').acquire());
      await fencedTxn(next).put(dataOf(world), 'new').commit();
      const read = { op: 'range', key: dataOf(world) } as const;
      const answer = await world.raw.txn({ compare: late.compare, success: [late.put], failure: [read] });
      expect(answer.succeeded).toBe(false);
      await expect(fencedTxnOf(asleep, world)).rejects.toMatchObject({ code: 'lost' });
      expect(await textIn(world)).toBe('new');
      connection.heal();
    });

    it('say unknown where the reply was lost, and are not repeated', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const hold = await keeper.lock('x').acquire();
      connection.loseNextReply((txn) => !isEnding(txn));
      const sent = connection.sent.length;
      await expect(fencedTxnOf(hold, world)).rejects.toMatchObject({
        code: 'unreachable',
        outcome: 'unknown',
      });
      expect(connection.sent.length).toBe(sent + 1);
      expect(await textIn(world)).toBe('mine');
    });

    it('refuse what cannot be meant, before anything is sent', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const hold = await keeper.lock('x').acquire();
      const sent = connection.sent.length;
      const own = hold.compare()[0]?.key ?? '';
      expect(() => fencedTxn(hold).put('', 'x')).toThrow(/key is ""/);
      expect(() => fencedTxn(hold).put(own, 'x')).toThrow(/queue of the lock itself/);
      // Nor in one sweep with others, nor the history that it was granted in.
      for (const rangeEnd of ['\0', `${own}0`, `${own.slice(0, -1)}~`]) {
        const sweep = { key: own.slice(0, 3), rangeEnd };
        expect(() => fencedTxn(hold).delete(sweep)).toThrow(/queue of the lock itself/);
        fencedTxn(hold).range(sweep);
      }
      const lineage = hold.compare()[1]?.key ?? '';
      expect(() => fencedTxn(hold).put(lineage, 'x')).toThrow(/lineage of all locks/);
      fencedTxn(hold)
        .delete({ key: `${lineage}0`, rangeEnd: `${lineage}1` })
        .delete(own.slice(0, 3));
      expect(() => fencedTxn({} as Hold)).toThrow(/hold is .* lacks compare\(\)/);
      expect(() => fencedTxn(hold).when({ key: 'k', target: 'valu' } as never)).toThrow(/target is "valu"/);
      await expect(fencedTxn(hold).commit()).rejects.toMatchObject({ code: 'invalid-option' });
      expect(connection.sent.length).toBe(sent);
      const once = fencedTxn(hold).put(dataOf(world), '1');
      await once.commit();
      await expect(once.commit()).rejects.toThrow(/sent before/);
      await hold.release();
      expect(await settled(fencedTxnOf(hold, world))).toMatchObject({ error: { code: 'released' } });
    });
  });

  async function fencedTxnOf(hold: Hold, world: LockWorld) {
    return fencedTxn(hold).put(dataOf(world), 'mine').commit();
  }
}
