import { LockkeeperError } from '@lockkeeper/core';
import { isEnding, isEnqueue } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Lost replies and late copies: never a ghost, never a wrong token. */
export function describeUnknownOutcomes(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: unknown outcomes`, () => {
    it('an enqueue whose reply is lost is found again: the token is that of the first commit', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await keeper.lock('warm-up').acquire()).release();
      connection.loseNextReply(isEnqueue);
      const hold = await soon(world, keeper.lock('x').acquire({ waitTimeoutMs: 5_000 }));
      const [key] = await world.queue('x');
      const { kvs } = await world.raw.range({ key: `${world.namespace}/lock/x/${key}` });
      expect(kvs[0]?.createRevision).toBe(hold.token.revision);
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
      expect(await world.queueLength('x')).toBe(0);
    });

    it('the same for tryAcquire, and in the middle of a queue', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      connection.loseNextReply(isEnqueue);
      const { hold } = await soon(world, keeper.lock('x').tryAcquire());
      connection.loseNextReply(isEnqueue);
      const waiting = settled(keeper.lock('x').acquire());
      await world.until('queued', async () => (await world.queueLength('x')) === 2);
      await hold?.release();
      expect(await soon(world, waiting)).toHaveProperty('value');
    });

    it('a copy of an enqueue that arrives after its acquisition ended leaves no key behind', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await keeper.lock('warm-up').acquire()).release();
      const heldBack = connection.holdNextBack(isEnqueue);
      const acquiring = soon(world, keeper.lock('x').acquire());
      const sendLateCopy = await heldBack;
      await (await acquiring).release();
      const late = await sendLateCopy();
      expect(late.succeeded).toBe(false);
      expect(await world.queueLength('x')).toBe(0);
    });

    it('nor does one that arrives after the wait was given up', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      await (await keeper.lock('warm-up').acquire()).release();
      const abort = new AbortController();
      const heldBack = connection.holdNextBack(isEnqueue);
      const acquiring = settled(keeper.lock('x').acquire({ signal: abort.signal }));
      const sendLateCopy = await heldBack;
      abort.abort('enough');
      expect(await acquiring).toEqual({ error: 'enough' });
      await world.until('the ending was sent', () => connection.sent.some(isEnding));
      await world.passTime(100);
      expect((await sendLateCopy()).succeeded).toBe(false);
      expect(await world.queueLength('x')).toBe(0);
    });

    it.each([
      ['an error of our own', new LockkeeperError('lost', 'another lock was lost')],
      ["another acquire's timeout", new LockkeeperError('wait-timeout', 'somebody was late')],
      ['what looks like a refusal of etcd', new LockkeeperError('lease-not-found', 'no such lease')],
      ['anything', 'enough'],
    ])(
      'an abort while the enqueue is under way leaves no key, whatever its reason is: %s',
      async (_, reason) => {
        const world = await newWorld();
        const { keeper, connection } = await world.faulty();
        const other = await world.keeper();
        const first = await keeper.lock('warm-up').acquire();
        const abort = new AbortController();
        connection.at('afterPut', ({ txn }) => isEnqueue(txn) && new Promise(() => {}));
        const acquiring = settled(keeper.lock('x').acquire({ signal: abort.signal }));
        await world.until('the enqueue was applied', async () => (await world.queueLength('x')) === 1);
        abort.abort(reason);
        expect(await acquiring).toEqual({ error: reason });
        await world.until('nothing is left', async () => (await world.queueLength('x')) === 0);
        expect(await soon(world, other.lock('x').acquire())).toHaveProperty('standing', 'held');
        expect(first.standing).toBe('held');
      },
    );

    it('a lease that was revoked unseen costs the next acquire nothing', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 30_000 });
      await (await keeper.lock('x').acquire()).release();
      await world.raw.revoke(connection.leases.at(-1) ?? 0n);
      expect(await soon(world, keeper.lock('x').acquire())).toHaveProperty('standing', 'held');
      await world.raw.revoke(connection.leases.at(-1) ?? 0n);
      expect((await soon(world, keeper.lock('y').tryAcquire())).hold).toHaveProperty('standing', 'held');
    });

    it('a lease that is found revoked while an enqueue is on its way costs that nothing either', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 30_000 });
      const hold = await keeper.lock('held').acquire();
      const { signal } = hold;
      const onItsWay = connection.holdNextBack(isEnqueue);
      const acquiring = settled(keeper.lock('x').acquire());
      const late = await soon(world, onItsWay);
      await world.raw.revoke(connection.leases.at(-1) ?? 0n);
      await world.until('the loss is known', () => signal.aborted);
      expect(await soon(world, acquiring)).toMatchObject({ value: { standing: 'held' } });
      // No copy for the lease that is gone has any effect.
      await expect(late()).rejects.toMatchObject({ code: 'lease-not-found' });
      expect(await world.queueLength('x')).toBe(1);
    });

    it('those who give up before anything was sent leave nothing behind', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const first = await keeper.lock('warm-up').acquire();
      const abort = new AbortController();
      const { signal } = abort;
      const acquiring = ['a', 'b', 'c'].map((name) => settled(keeper.lock(name).acquire({ signal })));
      abort.abort(new Error('enough'));
      for (const { error } of await Promise.all(acquiring))
        expect(error).toMatchObject({ message: 'enough' });
      // Whatever they had to take back would have gone out before this.
      await (await keeper.lock('later').acquire()).release();
      const { kvs } = await world.raw.range({ key: `${world.namespace}/`, rangeEnd: `${world.namespace}0` });
      const left = kvs.map(({ key }) => key.slice(world.namespace.length));
      expect(left).toEqual(['/lineage', expect.stringMatching(/^\/lock\/warm-up\//)]);
      await first.release();
    });

    it("who does not want to wait is told within a call's time that etcd is silent", async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 60_000 });
      await (await keeper.lock('x').acquire()).release();
      connection.goSilent();
      const begunAt = world.raw.clock.now();
      const tried = settled<unknown>(keeper.lock('x').tryAcquire());
      const acquired = settled<unknown>(keeper.lock('x').acquire({ waitTimeoutMs: 0 }));
      for (const outcome of [tried, acquired]) {
        expect(await soon(world, outcome)).toMatchObject({ error: { code: 'unreachable' } });
      }
      expect(world.raw.clock.now() - begunAt).toBeLessThan(8_000);
      connection.heal();
    });

    it('C1: a release whose reply is lost cannot touch the next hold of the same client', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const other = await world.keeper();
      const first = await keeper.lock('x').acquire();
      connection.loseNextReply(isEnding);
      const answer = await soon(world, first.release());
      expect(answer).toMatchObject({ outcome: 'released' });
      const lastEnding = connection.sent.filter(isEnding).at(-1);
      const second = await keeper.lock('x').acquire();
      expect(second.token.revision).toBeGreaterThan(first.token.revision);
      // The very message again, late.
      await world.raw.txn(lastEnding ?? expect.unreachable());
      expect(await first.release()).toBe(answer);
      expect(second.standing).toBe('held');
      expect((await other.lock('x').tryAcquire()).holder?.createRevision).toBe(second.token.revision);
      expect(await second.release()).toMatchObject({ outcome: 'released' });
    });

    it('a release that cannot be confirmed answers unknown, and is repeated until it is', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 20_000 });
      const hold = await keeper.lock('x').acquire();
      connection.goSilent();
      expect(await soon(world, hold.release())).toMatchObject({ outcome: 'unknown' });
      expect(hold.standing).toBe('released');
      expect(await world.queueLength('x')).toBe(1);
      connection.heal();
      await world.until('the release arrived', async () => (await world.queueLength('x')) === 0);
    });

    it('a release of a hold whose key was deleted from outside says that it was lost already', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const hold = await keeper.lock('x').acquire();
      const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
      await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
      expect(await hold.release()).toEqual({ outcome: 'already-lost', sealed: undefined });
    });

    it('so does a release that finds its key written over, whatever became of its first copy', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const hold = await keeper.lock('x').acquire();
      const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
      const heldBack = connection.holdNextBack(isEnding);
      const releasing = soon(world, hold.release());
      await heldBack;
      await world.raw.txn({ compare: [], success: [{ op: 'put', key, value: 'mine!' }], failure: [] });
      // The reply to what deletes it is lost as well: the third ending finds nothing.
      connection.loseNextReply(
        (txn) => isEnding(txn) && txn.compare.some(({ target }) => target === 'value'),
      );
      expect(await releasing).toEqual({ outcome: 'already-lost', sealed: undefined });
      expect(await world.queueLength('x')).toBe(0);
    });
  });
}
