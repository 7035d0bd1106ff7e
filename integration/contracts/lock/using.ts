import type { Hold, LockkeeperError } from '@lockkeeper/core';
import { type FaultyCoordinator, isEnding } from '@lockkeeper/testkit';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** What the callback does, given the error it may throw. */
const CALLBACKS = {
  returns: () => 'result',
  resolves: async () => 'result',
  // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is the point
  'gives a thenable': () => ({ then: (resolve: (value: string) => void) => resolve('result') }),
  throws: (business: Error) => {
    throw business;
  },
  rejects: (business: Error) => Promise.reject(business),
  'throws undefined': () => {
    // biome-ignore lint/style/useThrowOnlyError: a caller may throw anything
    throw undefined;
  },
};

type Spoil = (world: LockWorld, connection: FaultyCoordinator, hold: Hold) => unknown;

/** What goes wrong with the lock or its release while the callback runs. */
const TROUBLES: Record<string, Spoil> = {
  nothing: () => undefined,
  'release reply lost': (_world, connection) => connection.loseNextReply(isEnding),
  'release hangs': (_world, connection) => connection.goSilent(),
  // Work done in time; what is uncertain is only when the lock becomes free.
  'release unconfirmed until the lease ends': (_world, connection) => connection.goSilent(),
  'lock lost': (world, connection, hold) => {
    connection.goSilent();
    return world.until('lost', () => hold.standing === 'lost');
  },
  'key deleted': async (world) => {
    const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
    await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
  },
};

const MATRIX = Object.keys(CALLBACKS).flatMap((callback) =>
  Object.keys(TROUBLES).map((trouble) => ({ callback: callback as keyof typeof CALLBACKS, trouble })),
);

/** Case C5: what `using` settles to. */
export function describeUsing(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: C5, what using() settles to`, () => {
    it.concurrent.for(MATRIX)(
      'callback $callback, trouble: $trouble',
      async ({ callback, trouble }, { expect, onTestFinished }) => {
        const world = await newWorld(onTestFinished);
        const ttlMs = /lease|lost/.test(trouble) && trouble !== 'release reply lost' ? 4_000 : 20_000;
        const { keeper, connection } = await world.faulty({ ttlMs });
        const business: Error & { lockError?: LockkeeperError } = new Error('business');
        const running = keeper.lock('x').using({}, async (hold): Promise<string> => {
          await TROUBLES[trouble]?.(world, connection, hold);
          return CALLBACKS[callback](business);
        });
        const outcome = await soon(world, settled(running));
        connection.heal();
        const lost = trouble === 'lock lost' || trouble === 'key deleted';
        if (callback === 'throws undefined') expect(outcome).toEqual({ error: undefined });
        else if (callback === 'throws' || callback === 'rejects') {
          expect(outcome.error).toBe(business);
          expect(business.lockError?.code).toBe(lost ? 'lost' : undefined);
        } else if (lost) expect(outcome).toMatchObject({ error: { code: 'lost', result: 'result' } });
        else expect(outcome).toEqual({ value: 'result' });
      },
    );

    it('C7: a lock that is known to be lost is not released over and over: using settles at once', async () => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: 2_000 });
      const { clock } = connection;
      let callbackEndedAt = 0;
      const using = settled(
        keeper.lock('x').using({}, async (hold) => {
          connection.goSilent();
          await world.until('lost', () => hold.standing === 'lost');
          callbackEndedAt = clock.now();
        }),
      );
      const settledAt = using.then(() => clock.now());
      const { error } = await soon(world, using);
      expect(error).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
      // A release would be waited for until the 5 s of a call are over.
      expect((await settledAt) - callbackEndedAt).toBeLessThan(2_000);
      connection.heal();
    });

    it('B13: a hold stays the same over many renewals', async () => {
      const world = await newWorld();
      const keeper = await world.keeper({ ttlMs: 4_000 });
      const hold = await keeper.lock('x').acquire();
      const text = `${hold.token}`;
      for (let ttl = 0; ttl < 3; ttl += 1) {
        await world.passTime(hold.ttlMs);
        expect(hold.standing).toBe('held');
        expect(hold.remainingMs()).toBeGreaterThan(0);
        expect(`${hold.token}`).toBe(text);
      }
      expect(await hold.release()).toMatchObject({ outcome: 'released' });
    });
  });
}
