import { type FaultyCoordinator, waitUntilQueued } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Whoever waits in the keeper that gives the lock back is told by the reply to the release. */
export function describeHandOver(where: string, newWorld: MakeLockWorld): void {
  /**
   * A holder, somebody of the same keeper in line behind it, and somebody of another one at the end, while every event of
   * the queue is on its way to the keeper and does not arrive until `arrive`.
   */
  async function line() {
    const world = await newWorld();
    const { keeper, connection } = await world.faulty();
    const hold = await keeper.lock('x').acquire();
    const waiting = settled(keeper.lock('x').acquire());
    await waitUntilQueued(keeper, 'x', 1);
    const events = holdEventsBack(connection);
    const last = settled((await world.keeper()).lock('x').acquire());
    await waitUntilQueued(keeper, 'x', 2);
    // So the queue is watched, and was read before.
    await world.until('an event of the queue is on its way', () => events.reached > 0);
    const [, own = ''] = await world.queue('x');
    const ownKey = `${world.namespace}/lock/x/${own}`;
    return { world, keeper, hold, waiting, last, ownKey, letEventsCome: events.letCome };
  }

  describe(`locks on ${where}: hand-over within a keeper`, () => {
    it('needs no event', async () => {
      const { world, hold, waiting, last, letEventsCome } = await line();
      expect((await hold.release()).outcome).toBe('released');
      const { value } = await soon(world, waiting);
      expect(value?.standing).toBe('held');
      expect(value && value.token.revision > hold.token.revision).toBe(true);
      letEventsCome();
      await value?.release();
      expect(await soon(world, last)).toHaveProperty('value');
    });

    it.each([
      ['is gone', 'key-deleted', (key: string) => ({ op: 'delete', key }) as const],
      ['was overwritten', 'foreign-write', (key: string) => ({ op: 'put', key, value: 'by hand' }) as const],
    ])('is none where the key of the next %s meanwhile', async (_, lossCause, spoil) => {
      const { world, hold, waiting, ownKey, letEventsCome } = await line();
      await world.raw.txn({ compare: [], success: [spoil(ownKey)], failure: [] });
      expect((await hold.release()).outcome).toBe('released');
      letEventsCome();
      expect((await soon(world, waiting)).error).toMatchObject({ code: 'lost-while-waiting', lossCause });
    });

    it('passes nobody over who came from elsewhere', async () => {
      const { world, keeper, hold, waiting, last, letEventsCome } = await line();
      const behind = settled(keeper.lock('x').acquire());
      await waitUntilQueued(keeper, 'x', 3);
      await hold.release();
      await (await soon(world, waiting)).value?.release();
      const other = (await soon(world, last)).value;
      expect(other?.standing).toBe('held');
      letEventsCome();
      await other?.release();
      expect((await soon(world, behind)).value?.standing).toBe('held');
    });

    it('is none to whoever has taken the place of one who gave up, before others', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const lock = keeper.lock('x');
      const hold = await lock.acquire();
      const controller = new AbortController();
      const gone = settled(lock.acquire({ signal: controller.signal }));
      await waitUntilQueued(keeper, 'x', 1);
      const events = holdEventsBack(connection);
      const next = settled(lock.acquire());
      await waitUntilQueued(keeper, 'x', 2);
      await world.until('an event of the queue is on its way', () => events.reached > 0);
      const [, place] = await world.queue('x');
      controller.abort(new Error('no more patience'));
      await gone;
      await world.until('the place is free', async () => {
        const { waits, unconfirmedReleases } = await keeper.health();
        return waits === 1 && unconfirmedReleases === 0;
      });
      const last = settled(lock.acquire());
      await waitUntilQueued(keeper, 'x', 2);
      expect((await world.queue('x')).at(-1)).toBe(place);
      await hold.release();
      events.letCome();
      const first = (await soon(world, next)).value;
      expect(first?.standing).toBe('held');
      expect(await world.queueLength('x')).toBe(2);
      let isGranted = false;
      void last.then(() => {
        isGranted = true;
      });
      await world.passTime(100);
      expect(isGranted).toBe(false);
      await first?.release();
      expect((await soon(world, last)).value?.standing).toBe('held');
    });

    it('is no release of somebody whose key was not there any more', async () => {
      const { world, hold, waiting, last, letEventsCome } = await line();
      const [first = ''] = await world.queue('x');
      await world.raw.txn({
        compare: [],
        success: [{ op: 'put', key: `${world.namespace}/lock/x/${first}`, value: 'by hand' }],
        failure: [],
      });
      expect((await hold.release()).outcome).toBe('already-lost');
      letEventsCome();
      await (await soon(world, waiting)).value?.release();
      expect(await soon(world, last)).toHaveProperty('value');
    });

    it('goes from a leader that has proclaimed to the next candidate', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const election = keeper.election('e');
      const term = await election.campaign({ value: '1' });
      const next = settled(election.campaign({ value: '2' }));
      let reached = 0;
      connection.at('onWatch', ({ request }) => {
        if (request.rangeEnd === undefined) return undefined;
        reached += 1;
        return new Promise<void>(() => {});
      });
      await world.until('the queue is watched', async () => {
        await term.proclaim(`since ${connection.clock.now()}`);
        return reached > 0;
      });
      await term.resign();
      expect((await soon(world, next)).value?.standing).toBe('held');
    });
  });
}

/** Events of queues are on their way from now on, and do not arrive before they are let come. */
function holdEventsBack(connection: FaultyCoordinator) {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const events = {
    reached: 0,
    letCome: () => {
      late.restore();
      arrive();
    },
  };
  const late = connection.at('onWatch', ({ request }) => {
    if (request.rangeEnd === undefined) return undefined;
    events.reached += 1;
    return arrived;
  });
  return events;
}
