import { LockkeeperError } from '@lockkeeper/core';
import { isEnding, waitUntilQueued } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** C3: whatever fails while somebody is in line, no key of his stays that nobody waits with. */
export function describeFailedWaits(where: string, newWorld: MakeLockWorld): void {
  /** A holder, somebody in line whose connection can be spoilt, and the next one behind him. */
  async function line() {
    const world = await newWorld();
    const [holder, behind] = [await world.keeper(), await world.keeper()];
    const { keeper, connection } = await world.faulty();
    const hold = await holder.lock('x').acquire();
    const waiting = settled(keeper.lock('x').acquire());
    await waitUntilQueued(keeper, 'x', 1);
    const next = settled(behind.lock('x').acquire());
    await waitUntilQueued(keeper, 'x', 2);
    return { world, hold, waiting, next, connection };
  }

  describe(`locks on ${where}: waits that fail`, () => {
    it.each([
      ['its history was compacted', new LockkeeperError('compacted', 'compacted')],
      ['the stream was cancelled', new LockkeeperError('unreachable', 'cancelled')],
      ['the right to watch is gone', new LockkeeperError('permission-denied', 'no rights')],
    ])('a watch that ends because %s costs nobody his place', async (_, reason) => {
      const { world, hold, waiting, next, connection } = await line();
      await world.until('somebody watches', () => connection.endWatches(reason) > 0);
      await hold.release();
      const first = await soon(world, waiting);
      expect(first.error).toBeUndefined();
      expect(await world.queueLength('x')).toBe(2);
      await first.value?.release();
      expect(await soon(world, next)).toHaveProperty('value');
    });

    it('I7: events that come late cost no more than the time that they take', async () => {
      const { world, hold, waiting, next, connection } = await line();
      let reached = 0;
      let tell = () => {};
      const told = new Promise<void>((resolve) => {
        tell = resolve;
      });
      const late = connection.at('onWatch', () => {
        reached += 1;
        return told;
      });
      await hold.release();
      await world.until('the event has come', () => reached > 0);
      late.restore();
      const begun = connection.clock.now();
      tell();
      expect((await soon(world, waiting)).value?.standing).toBe('held');
      // Not by the poll, which comes after 15 s.
      expect(connection.clock.now() - begun).toBeLessThan(5_000);
      await (await waiting).value?.release();
      expect(await soon(world, next)).toHaveProperty('value');
    });

    it.each([
      ['permission-denied', new LockkeeperError('permission-denied', 'no rights to read')],
      ['unauthenticated', new LockkeeperError('unauthenticated', 'invalid auth token')],
    ])('%s when the queue is read again: the key is gone before the error is told', async (_, refusal) => {
      const { world, hold, waiting, next, connection } = await line();
      await world.until('somebody watches', () => {
        const isWatched = connection.endWatches(new LockkeeperError('compacted', 'compacted')) > 0;
        if (isWatched) connection.refuseReads(refusal);
        return isWatched;
      });
      // The first ending does not get through: the error has to wait for its repeat.
      void connection.holdNextBack(isEnding);
      await hold.release();
      const queueWhenTold = waiting.then(async ({ error }) => ({
        error,
        queue: await world.queueLength('x'),
      }));
      expect(await soon(world, queueWhenTold)).toEqual({ error: refusal, queue: 1 });
      expect(await soon(world, next)).toHaveProperty('value');
    });
  });
}
