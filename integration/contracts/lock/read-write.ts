import type { Hold, Lock } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { type Outcome, settled, soon } from '../outcome.ts';

/** Readers share, writers are alone, and nobody overtakes anybody. */
export function describeReadWriteLocks(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: read/write`, () => {
    it('a downgrade that etcd does not answer before the hold is lost, tells that it is lost', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const hold = await keeper.readWriteLock('x').write.acquire();
      connection.goSilent();
      const outcome = await soon(world, settled(hold.downgrade()));
      expect(outcome.error).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
      connection.heal();
    });

    it('readers hold together, a writer alone, in the order in which they queued', async () => {
      const world = await newWorld();
      const line = await Line.of(world, 5);
      const [r1, r2] = [await line.enter('read'), await line.enter('read')];
      const [w3, r4, w5] = [await line.enter('write'), await line.enter('read'), await line.enter('write')];
      await line.granted(r1);
      await line.granted(r2);
      await line.settleDown();
      expect([r1, r2, w3, r4, w5].map(({ hold }) => hold !== undefined)).toEqual([
        true,
        true,
        false,
        false,
        false,
      ]);
      await r1.hold?.release();
      await line.settleDown();
      // The second reader still reads, and the fourth in line does not overtake the writer.
      expect([w3, r4, w5].map(({ hold }) => hold !== undefined)).toEqual([false, false, false]);
      await r2.hold?.release();
      await line.granted(w3);
      await line.settleDown();
      expect([r4.hold, w5.hold]).toEqual([undefined, undefined]);
      await w3.hold?.release();
      await line.granted(r4);
      expect(w5.hold).toBeUndefined();
      await r4.hold?.release();
      await line.granted(w5);
      const tokens = [r1, r2, w3, r4, w5].map(({ hold }) => hold?.token.revision ?? 0n);
      expect([...tokens].sort((a, b) => Number(a - b))).toEqual(tokens);
    });

    it('a reader waits for the last writer before it, who may himself be waiting', async () => {
      const world = await newWorld();
      const line = await Line.of(world, 4);
      const r1 = await line.enter('read');
      const [w2, r3] = [await line.enter('write'), await line.enter('read')];
      await line.settleDown();
      expect(r3.hold).toBeUndefined();
      // The writer gives up: the reader behind it joins the one that reads.
      w2.abort.abort('enough');
      await line.granted(r3);
      expect(r1.hold?.standing).toBe('held');
    });

    it('a stream of readers cannot starve a writer', async () => {
      const world = await newWorld();
      const line = await Line.of(world, 12);
      let last = await line.enter('read');
      await line.granted(last);
      const writer = await line.enter('write');
      for (let reader = 0; reader < 10; reader += 1) {
        const next = await line.enter('read');
        if (reader === 0) await last.hold?.release();
        last = next;
      }
      await line.granted(writer);
      expect(last.hold).toBeUndefined();
      await writer.hold?.release();
      await line.granted(last);
    });

    it('tryAcquire takes a free side and says who is in the way of the other', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper({ identity: 'a' }), await world.keeper({ identity: 'b' })];
      const { hold: reading } = await a.readWriteLock('x').read.tryAcquire();
      const { hold: alsoReading } = await b.readWriteLock('x').read.tryAcquire();
      expect([reading?.standing, alsoReading?.standing]).toEqual(['held', 'held']);
      expect(await b.readWriteLock('x').write.tryAcquire()).toMatchObject({ holder: { identity: 'a' } });
      expect(await line(world, 'x')).toHaveLength(2);
      await reading?.release();
      await alsoReading?.release();
      const { hold: writing } = await a.readWriteLock('x').write.tryAcquire();
      expect(writing?.standing).toBe('held');
      expect(await b.readWriteLock('x').read.tryAcquire()).toMatchObject({ holder: { identity: 'a' } });
    });

    it('a reader whose key is deleted learns it, and its slot is clean', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const hold = await keeper.readWriteLock('x').read.acquire();
      await world.passTime(1_000);
      const key = hold.compare()[0]?.key ?? '';
      await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
      await world.until('told', () => hold.standing === 'lost');
      expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'key-deleted' });
      expect((await keeper.readWriteLock('x').write.acquire()).standing).toBe('held');
    });

    it('A13: a writer that becomes a reader lets the readers behind it in, and no writer', async () => {
      const world = await newWorld();
      const [a, b, c, d, e] = await Promise.all([1, 2, 3, 4, 5].map(() => world.keeper()));
      const writing = (await a?.readWriteLock('x').write.acquire()) ?? expect.unreachable();
      const reading = settled(b?.readWriteLock('x').read.acquire() ?? expect.unreachable());
      await world.until('a reader behind', async () => (await line(world, 'x')).length === 2);
      const nextWriter = settled(c?.readWriteLock('x').write.acquire() ?? expect.unreachable());
      await world.until('a writer behind', async () => (await line(world, 'x')).length === 3);
      const lastReader = settled(d?.readWriteLock('x').read.acquire() ?? expect.unreachable());
      await world.until('a reader at the end', async () => (await line(world, 'x')).length === 4);
      const { revision } = writing.token;
      await Promise.all([writing.downgrade(), writing.downgrade()]);
      const { value: reader } = await soon(world, reading);
      await world.passTime(700);
      expect([writing.standing, reader?.standing]).toEqual(['held', 'held']);
      expect(writing.token.revision).toBe(revision);
      expect(await line(world, 'x')).toHaveLength(4);
      await reader?.release();
      await world.passTime(300);
      expect(await Promise.race([nextWriter, Promise.resolve('waits')])).toBe('waits');
      expect(await writing.release()).toMatchObject({ outcome: 'released' });
      const { value: writer } = await soon(world, nextWriter);
      expect(await Promise.race([lastReader, Promise.resolve('waits')])).toBe('waits');
      await writer?.release();
      const { value: last } = await soon(world, lastReader);
      await last?.release();
      // And where nobody waits, a reader that comes later shares at once.
      const again = (await a?.readWriteLock('x').write.acquire()) ?? expect.unreachable();
      await again.downgrade();
      const later = settled(e?.readWriteLock('x').read.acquire() ?? expect.unreachable());
      const waits = () => Promise.race([later, Promise.resolve('waits')]);
      await world.until('it shares', async () => (await waits()) !== 'waits', 1_000);
      expect((await later).value?.standing).toBe('held');
      await again.release();
      await expect(again.downgrade()).resolves.toBeUndefined();
      const released = (await c?.readWriteLock('y').write.acquire()) ?? expect.unreachable();
      await released.release();
      await expect(released.downgrade()).rejects.toMatchObject({ code: 'released' });
    });

    it('one side inside the other would wait for itself, and is refused', async () => {
      const world = await newWorld();
      const { read, write } = (await world.keeper()).readWriteLock('x');
      await read.using({}, async () => {
        await expect(write.acquire()).rejects.toMatchObject({ code: 'not-reentrant' });
        await expect(read.acquire()).rejects.toMatchObject({ code: 'not-reentrant' });
      });
      const plain = await world.keeper();
      expect((await plain.lock('x').acquire()).standing).toBe('held');
    });
  });
}

interface Contender {
  readonly abort: AbortController;
  hold?: Hold;
}

/** Contenders that queue one after another, each with a session of its own. */
class Line {
  readonly #world: LockWorld;
  readonly #sides: { read: Lock; write: Lock }[];

  private constructor(world: LockWorld, sides: { read: Lock; write: Lock }[]) {
    this.#world = world;
    this.#sides = sides;
  }

  static async of(world: LockWorld, size: number): Promise<Line> {
    const keepers = await Promise.all(Array.from({ length: size }, () => world.keeper()));
    return new Line(
      world,
      keepers.map((keeper) => keeper.readWriteLock('x')),
    );
  }

  async enter(side: 'read' | 'write'): Promise<Contender> {
    const before = (await line(this.#world, 'x')).length;
    const contender: Contender = { abort: new AbortController() };
    const lock = this.#sides.shift()?.[side] ?? expect.unreachable();
    void settled(lock.acquire({ signal: contender.abort.signal })).then(({ value }: Outcome<Hold>) => {
      if (value !== undefined) contender.hold = value;
    });
    await this.#world.until('in line', async () => (await line(this.#world, 'x')).length === before + 1);
    return contender;
  }

  granted(contender: Contender): Promise<void> {
    return this.#world.until('granted', () => contender.hold !== undefined);
  }

  /** Long enough for somebody to be granted out of turn. */
  settleDown(): Promise<void> {
    return soon(this.#world, this.#world.passTime(300));
  }
}

/** Everybody in a read/write lock's queue. */
async function line(world: LockWorld, name: string): Promise<string[]> {
  const root = `${world.namespace}/rw/${name}`;
  const { kvs } = await world.raw.range({ key: `${root}/`, rangeEnd: `${root}0` });
  return kvs.map(({ key }) => key);
}
