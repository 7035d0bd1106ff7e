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
      let abortedAtGrant = false;
      const next = b
        .lock('x')
        .acquire()
        .then((granted) => {
          // Whoever looks then is told, also in a process that stood still and has not come to its timers yet.
          standingAtGrant = hold.standing;
          abortedAtGrant = signal.aborted;
          return granted;
        });
      const granted = await soon(world, next);
      expect([standingAtGrant, abortedAtGrant]).toEqual(['lost', true]);
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

    it.each([
      ['deleted', 'key-deleted'],
      ['overwritten', 'foreign-write'],
    ] as const)(
      'B17: a key that is %s from outside costs that hold alone, within a second',
      async (how, cause) => {
        const world = await newWorld();
        const [a, b] = [await world.keeper({ ttlMs: 30_000 }), await world.keeper()];
        const [hold, other] = [await a.lock('x').acquire(), await a.lock('y').acquire()];
        const { signal } = hold;
        await world.passTime(400);
        const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
        const op = how === 'deleted' ? 'delete' : 'put';
        await world.raw.txn({ compare: [], success: [{ op, key, value: 'foreign' }], failure: [] });
        await world.until('told', () => signal.aborted, 950);
        expect(signal.reason).toMatchObject({ code: 'lost', lossCause: cause });
        expect(hold.standing).toBe('lost');
        expect(other.standing).toBe('held');
        expect(other.signal.aborted).toBe(false);
        // Nothing of ours is left to block the lock, not even the overwritten key.
        const next = await soon(world, b.lock('x').acquire());
        expect(next.token.revision).toBeGreaterThan(hold.token.revision);
        expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
        expect(next.standing).toBe('held');
      },
    );

    it('a lease that is revoked from outside loses every hold on it within a second, with the cause', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 30_000 });
      const holds = [await keeper.lock('x').acquire(), await keeper.lock('y').acquire()];
      const signals = holds.map((hold) => hold.signal);
      await world.passTime(400);
      await world.raw.revoke(await world.leaseOf('x', 0));
      await world.until('told', () => signals.every(({ aborted }) => aborted), 950);
      for (const signal of signals)
        expect(signal.reason).toMatchObject({ code: 'lost', lossCause: 'revoked' });
      // The keeper goes on with a new session.
      expect(await soon(world, keeper.lock('x').acquire())).toHaveProperty('standing', 'held');
    });

    it('an external deletion that nobody has told us about yet is found by the release', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 30_000 });
      const hold = await keeper.lock('x').acquire();
      const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
      await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
      expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
    });

    it('B3: a loss is told once, and nobody needs to listen', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 30_000 });
      const hold = await keeper.lock('x').acquire();
      let told = 0;
      hold.signal.addEventListener('abort', () => (told += 1));
      await world.passTime(400);
      await world.raw.revoke(await world.leaseOf('x', 0));
      await world.until('lost', () => hold.standing === 'lost');
      await world.passTime(1_000);
      await hold.release();
      expect(told).toBe(1);
    });

    it('history: another lineage ends the session, and the next one begins in it', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 4_000 });
      const hold = await keeper.lock('x').acquire();
      const before = hold.token.lineage;
      await world.raw.txn({
        compare: [],
        success: [{ op: 'put', key: `${world.namespace}/lineage`, value: 'another-history' }],
        failure: [],
      });
      await world.until('lost', () => hold.standing === 'lost');
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'history-regressed' });
      const next = await soon(world, keeper.lock('x').acquire());
      expect(next.token.lineage).toBe('another-history');
      expect(before).not.toBe('another-history');
    });

    it('history: an acquire that meets another lineage fails, and the next one is granted in it', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 30_000 });
      await (await keeper.lock('x').acquire()).release();
      await world.raw.txn({
        compare: [],
        success: [{ op: 'put', key: `${world.namespace}/lineage`, value: 'another-history' }],
        failure: [],
      });
      await expect(keeper.lock('x').acquire()).rejects.toMatchObject({
        code: 'lost-while-waiting',
        lossCause: 'history-regressed',
      });
      expect((await keeper.lock('x').acquire()).token.lineage).toBe('another-history');
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
