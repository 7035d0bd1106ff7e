import type { ReleaseRequest, Txn } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Asking a holder to let go: it hears of it, and does as it likes. */
export function describeReleaseRequests(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: release requests`, () => {
    it('reach the holder, which lets go when it likes', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper({ identity: 'b' })];
      const hold = await a.lock('x').acquire();
      const heard: ReleaseRequest[] = [];
      hold.onReleaseRequested((request) => heard.push(request));
      const next = settled(b.lock('x').acquire());
      expect(await b.lock('x').requestRelease({ reason: 'deploy', deadlineMs: 500 })).toEqual({ asked: 1 });
      await world.until('heard', () => heard.length === 1);
      expect(heard).toEqual([{ reason: 'deploy', deadlineMs: 500, by: 'b' }]);
      await world.passTime(1_000);
      expect(hold.standing).toBe('held');
      await hold.release();
      expect((await soon(world, next)).value?.standing).toBe('held');
      expect(await requestsIn(world)).toBe(0);
    });

    it('from before the holder listened are heard too, by every listener, until it is disposed', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const hold = await a.lock('x').acquire();
      await b.lock('x').requestRelease({ reason: 'early' });
      const heard: string[] = [];
      const first = hold.onReleaseRequested(({ reason }) => heard.push(`first ${reason}`));
      hold.onReleaseRequested(({ reason }) => heard.push(`second ${reason}`));
      await world.until('heard', () => heard.length === 2);
      first[Symbol.dispose]();
      await b.lock('x').requestRelease({ reason: 'late' });
      await world.until('heard again', () => heard.length === 3);
      expect(heard).toEqual(['first early', 'second early', 'second late']);
    });

    it('go to every reader, to every lock of a set, and to nobody where it is free or held by others', async () => {
      const world = await newWorld();
      const [a, b, c] = [await world.keeper(), await world.keeper(), await world.keeper()];
      await a.readWriteLock('x').read.acquire();
      await b.readWriteLock('x').read.acquire();
      const ask = { reason: 'please' };
      expect(await c.readWriteLock('x').write.requestRelease(ask)).toEqual({ asked: 2 });
      const writing = settled(c.readWriteLock('x').write.acquire());
      await world.until('a writer waits', async () => {
        return (await a.inspect('x', { kind: 'readWrite' })).contenders === 3;
      });
      // A reader that a waiting writer keeps out asks those who hold, and not the one who waits.
      expect(await b.readWriteLock('x').read.requestRelease(ask)).toEqual({ asked: 2 });
      const writer = await a.readWriteLock('y').write.acquire();
      await writer.downgrade();
      await b.readWriteLock('y').read.acquire();
      expect(await c.readWriteLock('y').write.requestRelease(ask)).toEqual({ asked: 2 });
      await c.close();
      await writing;
      const d = await world.keeper();
      await a.lock('m').acquire();
      await b.lock('n').acquire();
      expect(await d.locks(['m', 'n', 'free']).requestRelease(ask)).toEqual({ asked: 2 });
      expect(await d.lock('free').requestRelease(ask)).toEqual({ asked: 0 });
      const foreign = { op: 'put', key: `${world.namespace}/lock/foreign/694d71dd`, value: '' } as const;
      await world.raw.txn({ compare: [], success: [foreign], failure: [] });
      expect(await d.lock('foreign').requestRelease(ask)).toEqual({ asked: 0 });
    });

    it('leave nothing behind once the hold has ended, whether anybody listened or not', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const { read, write } = a.readWriteLock('rw');
      const ask = { reason: 'please' };
      for (const lock of [a.lock('x'), a.locks(['x', 'y']), read, write, a.lock('own', { isolated: true })]) {
        const hold = await lock.acquire();
        expect(await lock.requestRelease(ask)).toEqual({ asked: 1 });
        expect(await requestsIn(world)).toBe(1);
        await hold.release();
        expect(await requestsIn(world)).toBe(0);
      }
      const broken = await a.lock('x').acquire();
      await b.lock('x').requestRelease(ask);
      await b.break('x', { token: `${broken.token}`, guards: [] });
      await world.until('nothing is left of a broken hold', async () => (await requestsIn(world)) === 0);
      await a.lock('x').acquire();
      await b.lock('x').requestRelease(ask);
      await world.raw.revoke(await world.leaseOf('x', 0));
      expect(await requestsIn(world)).toBe(0);
    });

    it('that arrive when the hold has ended are not left', async () => {
      const world = await newWorld();
      const [a, { keeper: b, connection }] = [await world.keeper(), await world.faulty()];
      const hold = await a.lock('x').acquire();
      const heldBack = connection.holdNextBack(isRequest);
      const asking = settled(b.lock('x').requestRelease({ reason: 'late' }));
      const send = await heldBack;
      await hold.release();
      await a.lock('x').acquire();
      const { results } = await send();
      expect(results).toMatchObject([{ op: 'txn', succeeded: false }]);
      expect(await requestsIn(world)).toBe(0);
      expect((await soon(world, asking)).error).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    });

    it('are refused without a reason', async () => {
      const lock = (await (await newWorld()).keeper()).lock('x');
      await expect(lock.requestRelease({ reason: '' })).rejects.toThrow(/reason is ""/);
      await expect(lock.requestRelease({ reason: 'x', deadlineMs: -1 })).rejects.toThrow(/deadlineMs is -1/);
    });
  });
}

async function requestsIn({ raw, namespace }: LockWorld): Promise<number> {
  const { count } = await raw.range({ key: `${namespace}/requests/`, rangeEnd: `${namespace}/requests0` });
  return count;
}

function isRequest({ success }: Txn): boolean {
  const puts = success.flatMap((operation) => (operation.op === 'txn' ? operation.success : []));
  return puts.some((operation) => operation.op === 'put' && operation.key.includes('/requests/'));
}
