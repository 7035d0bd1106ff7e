import { connect } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { FaultyCoordinator } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';

async function heldLock() {
  const clock = new VirtualClock();
  const connection = new FaultyCoordinator(memoryCoordinator({ store: memoryStore({ clock }) }));
  const keeper = await connect({ coordinator: connection, namespace: 'n', ttlMs: 30_000 });
  return { clock, connection, keeper, hold: await keeper.lock('x').acquire() };
}

describe('a suspended machine, whose monotonic clock stood still', () => {
  it('makes a hold suspect and unsafe at the next look, until a renewal confirms it', async () => {
    const { clock, hold } = await heldLock();
    clock.setWallTime(clock.wallTime() + 20_000);
    expect(hold.standing).toBe('suspect');
    expect(hold.remainingMs()).toBe(0);
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'suspect' }));
    expect(hold.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(hold.standing).toBe('held');
    expect(() => hold.assertHeld()).not.toThrow();
    expect(hold.remainingMs()).toBeGreaterThan(20_000);
  });

  it('loses the hold where the renewal fails, or finds the lease gone', async () => {
    const silent = await heldLock();
    silent.connection.goSilent();
    silent.clock.setWallTime(silent.clock.wallTime() + 20_000);
    expect(silent.hold.standing).toBe('suspect');
    await silent.clock.advance(1);
    expect(silent.hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
  });

  it('a wall clock that is set back changes nothing', async () => {
    const { clock, hold } = await heldLock();
    clock.setWallTime(clock.wallTime() - 3_600_000);
    expect(hold.standing).toBe('held');
    await clock.advance(90_000);
    expect(hold.standing).toBe('held');
  });
});

describe('an etcd that was restored from a backup, with the same lineage', () => {
  /** The same lineage and lease at an earlier revision, and nothing of what came after. */
  async function restored(connection: FaultyCoordinator, clock: VirtualClock): Promise<void> {
    const lineage = await connection.range({ key: 'n/lineage' });
    const queue = await connection.range({ key: 'n/lock/x/', rangeEnd: 'n/lock/x0' });
    const store = memoryStore({ clock });
    store.grant({ lease: queue.kvs[0]?.lease ?? 0n, ttlMs: 30_000 });
    const value = lineage.kvs[0]?.value ?? new Uint8Array();
    store.txn({ compare: [], success: [{ op: 'put', key: 'n/lineage', value }], failure: [] });
    connection.reconnectTo(memoryCoordinator({ store }));
  }

  it('ends the session of whoever asks it anything, before a lower token is handed out', async () => {
    const { clock, connection, keeper, hold } = await heldLock();
    for (let more = 0; more < 5; more += 1) await (await keeper.lock('y').acquire()).release();
    await restored(connection, clock);
    await expect(keeper.lock('y').acquire()).rejects.toMatchObject({ code: 'lost-while-waiting' });
    expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'history-regressed' });
  });

  it('is noticed by a holder that does nothing, within a TTL', async () => {
    const { clock, connection, keeper, hold } = await heldLock();
    for (let more = 0; more < 5; more += 1) await (await keeper.lock('y').acquire()).release();
    await restored(connection, clock);
    await clock.advance(40_000);
    expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'history-regressed' });
  });
});
