import { type Keeper, LockkeeperError, type Permit } from '@lockkeeper/core';
import { waitUntilQueued } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { type Outcome, settled, soon } from '../outcome.ts';

const WAITERS = 20;

/** Those of a keeper who wait for a permit look at the semaphore together. */
export function describeSemaphoreWaits(where: string, newWorld: MakeLockWorld): void {
  /** One permit, taken elsewhere, and many who wait for it in one keeper, in the order of their waits. */
  async function line() {
    const world = await newWorld();
    const holder = await take(await world.keeper());
    const { keeper, connection } = await world.faulty();
    const waits: Promise<Outcome<Permit>>[] = [];
    let events = 0;
    const counting = connection.at('onWatch', () => {
      events += 1;
    });
    for (let nth = 1; nth <= WAITERS; nth += 1) {
      waits.push(settled(take(keeper)));
      await waitUntilQueued(keeper, 'x', nth, { kind: 'semaphore' });
      // The others are read when the first comes: what is seen of those who come later are events.
      if (nth > 1) await world.until('the last one is seen', () => events >= nth - 1);
    }
    counting.restore();
    return { world, holder, keeper, connection, waits };
  }

  describe(`locks on ${where}: waiting for a permit`, () => {
    it('costs one grant a hand-over, however many wait', async () => {
      const { world, holder, connection, waits } = await line();
      let held = holder;
      for (const wait of waits) {
        const before = connection.sent.length;
        await held.release();
        const { value } = await soon(world, wait);
        expect(value?.slot).toBe(0);
        const isFirst = held === holder;
        // The release of the one before, which another keeper's is not, and the grant.
        expect(connection.sent.length - before).toBe(isFirst ? 1 : 2);
        held = value ?? expect.unreachable();
      }
      await held.release();
    });

    it('goes on where the watch ends', async () => {
      const { world, holder, connection, waits } = await line();
      connection.endWatches(new LockkeeperError('compacted', 'compacted'));
      await holder.release();
      expect((await soon(world, waits[0] ?? expect.unreachable())).value?.slot).toBe(0);
    });

    it.each([
      ['gone', 'key-deleted', (key: string) => ({ op: 'delete', key }) as const],
      ['overwritten', 'foreign-write', (key: string) => ({ op: 'put', key, value: 'by hand' }) as const],
    ])('ends for the one whose place is %s, and for nobody else', async (_, lossCause, spoil) => {
      const { world, holder, waits } = await line();
      const keys = await queueOf(world);
      await world.raw.txn({ compare: [], success: [spoil(keys[3] ?? '')], failure: [] });
      const lost = await soon(world, waits[2] ?? expect.unreachable());
      expect(lost.error).toMatchObject({ code: 'lost-while-waiting', lossCause });
      await holder.release();
      expect((await soon(world, waits[0] ?? expect.unreachable())).value?.slot).toBe(0);
    });

    it('is over for those who give up; the next in line is served', async () => {
      const { world, holder, keeper, waits } = await line();
      const abort = new AbortController();
      const giving = settled(keeper.semaphore('x', { permits: 1 }).acquire({ signal: abort.signal }));
      await waitUntilQueued(keeper, 'x', WAITERS + 1, { kind: 'semaphore' });
      abort.abort(new Error('enough'));
      expect((await soon(world, giving)).error).toMatchObject({ message: 'enough' });
      await world.until('its place is gone', async () => (await queueOf(world)).length === WAITERS + 1);
      await holder.release();
      const { value: first } = await soon(world, waits[0] ?? expect.unreachable());
      await first?.release();
      expect((await soon(world, waits[1] ?? expect.unreachable())).value?.slot).toBe(0);
    });

    it('ends for as many as a resize lets in', async () => {
      const { world, holder, keeper, waits } = await line();
      await keeper.semaphore('x', { permits: 1 }).resize(3);
      for (const wait of waits)
        expect((await soon(world, wait)).error).toMatchObject({ code: 'invalid-option' });
      const more = await Promise.all([take(keeper, 3), take(keeper, 3)]);
      expect(new Set([holder, ...more].map(({ slot }) => slot)).size).toBe(3);
    });
  });
}

const take = (keeper: Keeper, permits = 1): Promise<Permit> => keeper.semaphore('x', { permits }).acquire();

async function queueOf(world: LockWorld): Promise<string[]> {
  const key = `${world.namespace}/semaphore/x/queue/`;
  const rangeEnd = `${world.namespace}/semaphore/x/queue0`;
  const { kvs } = await world.raw.range({ key, rangeEnd, sort: { by: 'createRevision', order: 'ascend' } });
  return kvs.map((kv) => kv.key);
}
