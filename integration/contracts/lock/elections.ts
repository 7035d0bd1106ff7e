import { type Election, type Keeper, type Leader, LockkeeperError, type Term } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** One leader at a time, whose work ends before the next one's begins; and observers that are never wrong. */
export function describeElections(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: elections`, () => {
    it('the first candidate leads, the next one after its resignation, with a higher token', async () => {
      const world = await newWorld();
      const [a, b] = await electionsOf(world, 2);
      const first = await a.campaign({ value: 'a' });
      const waiting = settled(b.campaign({ value: 'b' }));
      await candidates(world, 2);
      expect(await a.leader()).toMatchObject({ value: 'a', revision: first.token.revision });
      expect(await first.resign()).toMatchObject({ outcome: 'released' });
      const { value: second } = await soon(world, waiting);
      expect(second?.token.revision).toBeGreaterThan(first.token.revision);
      expect(await a.leader()).toMatchObject({ value: 'b', revision: second?.token.revision });
      await second?.resign();
      expect(await a.leader()).toBeUndefined();
      expect((await world.raw.range(all(world))).kvs).toHaveLength(1);
    });

    it('proclaim rewrites the value, and the term, its token and its end stay as they are', async () => {
      const world = await newWorld();
      const [a, b] = await electionsOf(world, 2);
      const term = await a.campaign({ value: '1' });
      const { revision } = term.token;
      await Promise.all([term.proclaim('2'), term.proclaim('3')]);
      await world.passTime(1_000);
      await term.proclaim('4');
      await world.passTime(600);
      expect(term.standing).toBe('held');
      expect(term.token.revision).toBe(revision);
      const leader = (await b.leader()) ?? expect.unreachable();
      expect(leader).toMatchObject({ value: '4', revision });
      expect(leader.valueRevision).toBeGreaterThan(revision);
      expect(
        (await world.raw.txn({ compare: term.compare(), success: [], failure: [{ op: 'range', key: 'x' }] }))
          .succeeded,
      ).toBe(true);
      expect(await term.resign()).toMatchObject({ outcome: 'released' });
      await expect(term.proclaim('5')).rejects.toMatchObject({ code: 'released' });
      expect(await b.leader()).toBeUndefined();
    });

    it('a proclamation whose reply is lost is found again, and takes effect once', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const term = await keeper.election('x').campaign({ value: '1' });
      connection.loseNextReply((txn) => txn.success[0]?.op === 'put');
      await soon(world, term.proclaim('2'));
      expect(await keeper.election('x').leader()).toMatchObject({ value: '2' });
      await term.proclaim('3');
      expect(await keeper.election('x').leader()).toMatchObject({ value: '3' });
    });

    it('a proclamation that etcd does not answer before the term is lost, tells that it is lost', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const term = await keeper.election('x').campaign({ value: '1' });
      connection.goSilent();
      const proclaiming = settled(term.proclaim('2'));
      expect((await soon(world, proclaiming)).error).toMatchObject({
        code: 'lost',
        lossCause: 'unconfirmed',
      });
      connection.heal();
    });

    it('observe goes on after etcd had too much to do', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty();
      const election = keeper.election('x');
      connection.refuseReads(new LockkeeperError('limit-exceeded', 'too many requests'));
      const observing = election.observe();
      const first = settled(observing.next());
      await world.passTime(500);
      connection.heal();
      expect((await soon(world, first)).value).toEqual({ done: false, value: undefined });
      await observing.return();
    });

    it.each([
      ['deletes its key', 'key-deleted'],
      ['overwrites its key', 'foreign-write'],
    ])('somebody %s: the term is over, and says why', async (how, lossCause) => {
      const world = await newWorld();
      const [a] = await electionsOf(world, 1);
      const term = await a.campaign({ value: 'a' });
      await world.passTime(600);
      const key = term.compare()[0]?.key ?? '';
      const spoil = how.startsWith('deletes')
        ? ({ op: 'delete', key } as const)
        : ({ op: 'put', key, value: 'usurper' } as const);
      await world.raw.txn({ compare: [], success: [spoil], failure: [] });
      const read = { op: 'range', key } as const;
      const late = await world.raw.txn({ compare: term.compare(), success: [read], failure: [read] });
      expect(late.succeeded).toBe(false);
      await world.until('told', () => term.standing === 'lost');
      expect(term.signal.reason).toMatchObject({ code: 'lost', lossCause });
      await expect(soon(world, term.proclaim('late'))).rejects.toMatchObject({ code: 'lost' });
      await world.until('nobody leads', async () => (await a.leader()) === undefined);
    });

    it('E1: the end of somebody in the middle makes nobody leader', async () => {
      const world = await newWorld();
      const [a, b, c] = await electionsOf(world, 3);
      const leading = await a.campaign({ value: 'a' });
      const abort = new AbortController();
      const middle = settled(b.campaign({ value: 'b', signal: abort.signal }));
      await candidates(world, 2);
      const last = settled(c.campaign({ value: 'c' }));
      await candidates(world, 3);
      abort.abort('enough');
      expect(await middle).toEqual({ error: 'enough' });
      await candidates(world, 2);
      await world.passTime(500);
      expect(await c.leader()).toMatchObject({ value: 'a' });
      await leading.resign();
      expect((await soon(world, last)).value?.standing).toBe('held');
    });

    it('E7: candidates of one identity are told apart by their keys', async () => {
      const world = await newWorld();
      const keepers = [await world.keeper({ identity: 'n-1' }), await world.keeper({ identity: 'n-1' })];
      const [a, b] = keepers.map((keeper) => keeper.election('x')) as [Election, Election];
      const term = await a.campaign();
      const waiting = settled(b.campaign());
      await candidates(world, 2);
      await world.passTime(300);
      expect(await a.leader()).toMatchObject({ value: 'n-1', revision: term.token.revision });
      await term.resign();
      expect((await soon(world, waiting)).value?.standing).toBe('held');
    });

    it('terms: after a loss the candidate enters again, and its work never overlaps', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const stop = new AbortController();
      const tokens: bigint[] = [];
      let inside = 0;
      const leading = (async () => {
        for await (const term of keeper.election('x').terms({ signal: stop.signal, value: 'a' })) {
          inside += 1;
          expect(inside).toBe(1);
          tokens.push(term.token.revision);
          if (tokens.length < 3) await revoke(world, term);
          else stop.abort('enough');
          await aborted(term.signal);
          // The work takes a while to notice.
          await world.passTime(100);
          inside -= 1;
        }
      })();
      await soon(world, leading);
      expect(tokens).toHaveLength(3);
      expect([...tokens].sort((a, b) => Number(a - b))).toEqual(tokens);
      expect(await keeper.election('x').leader()).toBeUndefined();
    });

    it('terms: a term that is left by break or by an error is resigned', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      for await (const term of keeper.election('x').terms()) {
        expect(term.standing).toBe('held');
        break;
      }
      expect(await keeper.election('x').leader()).toBeUndefined();
      const mine = new Error('mine');
      const failing = (async () => {
        for await (const _term of keeper.election('x').terms()) throw mine;
      })();
      await expect(soon(world, failing)).rejects.toBe(mine);
      expect(await keeper.election('x').leader()).toBeUndefined();
    });

    it('E5: candidates that are cancelled before they lead never work', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const term = await a.election('x').campaign();
      let worked = 0;
      const runs = Array.from({ length: 50 }, (_, index) => {
        const abort = new AbortController();
        const run = settled(b.runAsLeader('x', () => (worked += 1), { signal: abort.signal }));
        void world.passTime(index % 7).then(() => abort.abort('enough'));
        return run;
      });
      for (const run of runs) expect(await soon(world, run)).toEqual({ error: 'enough' });
      expect(worked).toBe(0);
      await candidates(world, 1);
      await term.resign();
    });

    it('E3: a leader that is asked to stop keeps leading until its work has ended', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const order: string[] = [];
      const stop = new AbortController();
      const first = settled(
        a.runAsLeader(
          'x',
          async (term) => {
            order.push('a begins');
            await aborted(term.signal);
            await world.passTime(2_000);
            order.push(`a ends, ${term.standing}`);
            return 'done';
          },
          { signal: stop.signal },
        ),
      );
      await candidates(world, 1);
      const second = settled(b.runAsLeader('x', () => void order.push('b begins')));
      await candidates(world, 2);
      stop.abort('enough');
      expect(await soon(world, first)).toEqual({ value: 'done' });
      await soon(world, second);
      expect(order).toEqual(['a begins', 'a ends, held', 'b begins']);
    });

    it('E3: work that ignores the wish to stop is not waited for beyond the limit', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const stop = new AbortController();
      let release: () => void = () => undefined;
      const stuck = new Promise<void>((resolve) => {
        release = resolve;
      });
      const first = settled(a.runAsLeader('x', () => stuck, { signal: stop.signal, drainTimeoutMs: 500 }));
      await candidates(world, 1);
      const second = settled(b.runAsLeader('x', () => 'b'));
      stop.abort('enough');
      expect(await soon(world, first)).toEqual({ error: 'enough' });
      expect(await soon(world, second)).toEqual({ value: 'b' });
      release();
    });

    it('work of a lost term that does not end is no reason to begin it a second time', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      let release: () => void = () => undefined;
      let begun = 0;
      const run = settled(
        keeper.runAsLeader(
          'x',
          async (term) => {
            begun += 1;
            await revoke(world, term);
            await new Promise<void>((resolve) => {
              release = resolve;
            });
          },
          { drainTimeoutMs: 300 },
        ),
      );
      expect((await soon(world, run)).error).toMatchObject({ code: 'drain-timeout' });
      await world.passTime(500);
      expect(begun).toBe(1);
      release();
    });

    it('closing the keeper waits for the work of a term, and ends the loop', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const order: string[] = [];
      const leading = (async () => {
        for await (const term of keeper.election('x').terms()) {
          order.push('begins');
          await aborted(term.signal);
          await world.passTime(500);
          order.push(`ends, ${term.standing}`);
        }
        order.push('over');
      })();
      await world.until('leading', () => order.length === 1);
      await soon(world, keeper.close());
      await leading;
      expect(order).toEqual(['begins', 'ends, held', 'over']);
    });

    it('observe: every change in the order of revisions, and nobody where nobody leads', async () => {
      const world = await newWorld();
      const [a, b, observer] = await electionsOf(world, 3);
      const stop = new AbortController();
      const seen: (string | undefined)[] = [];
      const revisions: bigint[] = [];
      const note = (leader: Leader | undefined) => {
        seen.push(leader?.value);
        if (leader !== undefined) revisions.push(leader.valueRevision);
      };
      const observing = (async () => {
        for await (const leader of observer.observe({ signal: stop.signal })) note(leader);
      })();
      await world.until('nobody', () => seen.length === 1);
      const first = await a.campaign({ value: 'a1' });
      await first.proclaim('a2');
      const waiting = settled(b.campaign({ value: 'b' }));
      await candidates(world, 2);
      await first.resign();
      const { value: second } = await soon(world, waiting);
      await second?.resign();
      await world.until('nobody again', () => seen.length > 1 && seen.at(-1) === undefined);
      expect(seen).toEqual([undefined, 'a1', 'a2', 'b', undefined]);
      expect(revisions).toEqual([...revisions].sort((x, y) => Number(x - y)));
      stop.abort('enough');
      await soon(world, observing);
    });

    it('refuses what cannot be meant', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      expect(() => keeper.election('')).toThrow(/name is ""/);
      await expect(keeper.election('x').campaign({ value: 7 as never })).rejects.toThrow(/value is 7/);
      await expect(keeper.runAsLeader('x', 'work' as never)).rejects.toThrow(/work is "work"/);
      await expect(keeper.runAsLeader('x', () => 1, { drainTimeoutMs: -1 })).rejects.toThrow(
        /drainTimeoutMs is -1/,
      );
      await keeper.runAsLeader('x', async () => {
        await expect(keeper.election('x').campaign()).rejects.toMatchObject({ code: 'not-reentrant' });
      });
    });
  });
}

const all = (world: LockWorld) => ({ key: `${world.namespace}/`, rangeEnd: `${world.namespace}0` });

async function electionsOf(world: LockWorld, count: 1 | 2 | 3): Promise<[Election, Election, Election]> {
  const keepers: Keeper[] = [];
  for (let index = 0; index < count; index += 1) keepers.push(await world.keeper());
  return keepers.map((keeper) => keeper.election('x')) as [Election, Election, Election];
}

function candidates(world: LockWorld, count: number): Promise<void> {
  const root = `${world.namespace}/election/x`;
  const standing = async () => (await world.raw.range({ key: `${root}/`, rangeEnd: `${root}0` })).count;
  return world.until(`${count} candidates`, async () => (await standing()) === count);
}

async function revoke(world: LockWorld, term: Term): Promise<void> {
  const { kvs } = await world.raw.range({ key: term.compare()[0]?.key ?? '' });
  await world.raw.revoke(kvs[0]?.lease ?? 0n);
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
