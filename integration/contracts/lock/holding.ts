import { type Hold, LockkeeperError } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** What a hold tells, when it is lost, and its token. */
export function describeHolding(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: holding and losing`, () => {
    it('a holder that cannot renew is lost before anybody else is granted the lock', async () => {
      const world = await newWorld();
      const { keeper: a, connection } = await world.faulty({ ttlMs: 2_000 });
      const b = await world.keeper();
      const hold = await a.lock('x').acquire();
      const { signal } = hold;
      connection.goSilent();
      let standingAtGrant: string | undefined;
      const next = b
        .lock('x')
        .acquire()
        .then((granted) => {
          standingAtGrant = signal.aborted ? 'lost' : 'held';
          return granted;
        });
      const granted = await soon(world, next);
      expect(standingAtGrant).toBe('lost');
      expect(signal.reason).toBeInstanceOf(LockkeeperError);
      expect(signal.reason).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
      expect(hold.standing).toBe('lost');
      expect(hold.remainingMs()).toBe(0);
      expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'lost' }));
      expect(granted.token.revision).toBeGreaterThan(hold.token.revision);
      connection.heal();
      expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
      expect(granted.standing).toBe('held');
      // A lost session is not used again; the keeper opens a new one.
      const again = settled(a.lock('y').acquire());
      expect(await soon(world, again)).toHaveProperty('value');
    });

    it('a missed renewal makes a hold suspect, a good one holds it again', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 6_000 });
      const hold = await keeper.lock('x').acquire();
      connection.goSilent();
      await world.until('suspect', () => hold.standing === 'suspect');
      expect(hold.remainingMs()).toBeGreaterThan(0);
      connection.heal();
      await world.until('held again', () => hold.standing === 'held');
      expect(hold.signal.aborted).toBe(false);
    });

    it('a lease that is revoked from outside loses every hold on it, with the cause', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 2_000 });
      const holds = [await keeper.lock('x').acquire(), await keeper.lock('y').acquire()];
      await world.raw.revoke(await world.leaseOf('x', 0));
      await world.until('both lost', () => holds.every((hold) => hold.standing === 'lost'));
      for (const hold of holds)
        expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'revoked' });
    });

    it('D13: a token never changes, and the tokens of one name strictly rise', async () => {
      const world = await newWorld();
      const keepers = [await world.keeper(), await world.keeper()];
      let last = 0n;
      for (let tenure = 0; tenure < 200; tenure += 1) {
        const hold = await keepers[tenure % 2]?.lock('x').acquire();
        const { token } = hold ?? expect.unreachable();
        const text = token.toString();
        await world.raw.txn({
          compare: [],
          success: [{ op: 'put', key: `${world.namespace}-noise`, value: '' }],
          failure: [],
        });
        expect(hold?.token.toString()).toBe(text);
        expect(token.revision).toBeGreaterThan(last);
        last = token.revision;
        await hold?.release();
      }
    });

    it('compare() lets a transaction through exactly while the hold stands', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const first = await a.lock('x').acquire();
      const write = (hold: Hold, value: string) =>
        world.raw.txn({
          compare: hold.compare(),
          success: [{ op: 'put', key: `${world.namespace}-data`, value }],
          failure: [{ op: 'range', key: `${world.namespace}-data` }],
        });
      expect((await write(first, '1')).succeeded).toBe(true);
      await first.release();
      expect((await write(first, '2')).succeeded).toBe(false);
      const second = await b.lock('x').acquire();
      expect((await write(first, '3')).succeeded).toBe(false);
      expect((await write(second, '4')).succeeded).toBe(true);
      const { kvs } = await world.raw.range({ key: `${world.namespace}-data` });
      expect(new TextDecoder().decode(kvs[0]?.value)).toBe('4');
    });
  });
}
