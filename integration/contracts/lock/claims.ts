import { type Claimable, type FencingToken, GuardError } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Guards promise before an acquire resolves, and are sealed at the release. */
export function describeClaims(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: claims`, () => {
    it('an acquire resolves only after every guard has promised, in terms of the new token', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guards = [new SlowGuard('a'), new SlowGuard('b')];
      let resolved = false;
      const acquiring = keeper
        .lock('x')
        .acquire({ claims: guards })
        .finally(() => (resolved = true));
      await world.until('both asked', () => guards.every((guard) => guard.claims.length === 1));
      guards[0]?.answer();
      await world.passTime(50);
      expect(resolved).toBe(false);
      guards[1]?.answer();
      const hold = await acquiring;
      expect(guards.map((guard) => guard.claims)).toEqual([[hold.token], [hold.token]]);
      const releasing = hold.release();
      await world.until('both sealed', () => guards.every((guard) => guard.seals.length === 1));
      expect(await world.queueLength('x')).toBe(1);
      for (const guard of guards) guard.answer();
      expect(await releasing).toEqual({ outcome: 'released', sealed: true });
    });

    it('a guard that does not promise in time costs the lock, not the queue', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const guard = new SlowGuard('accounts');
      const acquiring = settled(a.lock('x').acquire({ claims: [guard], claimTimeoutMs: 200 }));
      await world.until('asked', () => guard.claims.length === 1);
      await world.passTime(250);
      const outcome = await acquiring;
      expect(outcome).toMatchObject({ error: { code: 'claim-timeout' } });
      expect(String(outcome.error)).toMatch(/"accounts".*claimTimeoutMs 200/);
      expect(await soon(world, b.lock('x').acquire())).toHaveProperty('standing', 'held');
    });

    it('names the guard that did not promise in time, and what it answered last', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const promises = new SlowGuard('accounts');
      const lost = new GuardError('unknown', 'guard "accounts": the reply was lost');
      const elsewhere: Claimable = {
        resource: 'accounts',
        claim: () => Promise.reject(lost),
        seal: () => Promise.resolve(),
      };
      const claims = [promises, elsewhere];
      const acquiring = settled(keeper.lock('x').acquire({ claims, claimTimeoutMs: 1_500 }));
      await world.until('asked', () => promises.claims.length === 1);
      promises.answer();
      await world.passTime(1_550);
      expect((await acquiring).error).toMatchObject({
        code: 'claim-timeout',
        message: expect.stringMatching(/guard "accounts" within claimTimeoutMs 1500: .*the reply was lost/),
        cause: lost,
      });
    });

    it('a guard that refuses costs the lock, with the reason', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const broken = new Error('no such table');
      const guard: Claimable = {
        resource: 'accounts',
        claim: () => Promise.reject(broken),
        seal: () => Promise.resolve(),
      };
      await expect(a.lock('x').acquire({ claims: [guard] })).rejects.toMatchObject({
        code: 'claim-failed',
        cause: broken,
      });
      expect(await soon(world, b.lock('x').acquire())).toHaveProperty('standing', 'held');
    });

    it('a guard that is down keeps a released lock from nobody: sealed is false', async () => {
      const world = await newWorld();
      const [a, b] = [await world.keeper(), await world.keeper()];
      const guard = new SlowGuard('accounts');
      const acquiring = a.lock('x').acquire({ claims: [guard], claimTimeoutMs: 1_500 });
      await world.until('asked', () => guard.claims.length === 1);
      guard.answer();
      const releasing = (await acquiring).release();
      await world.passTime(1_550);
      expect(await releasing).toEqual({ outcome: 'released', sealed: false });
      expect(await soon(world, b.lock('x').acquire())).toHaveProperty('standing', 'held');
    });

    it('sealOnRelease: false leaves the guards alone', async () => {
      const world = await newWorld();
      const keeper = await world.keeper();
      const guard = new SlowGuard('accounts');
      const acquiring = keeper.lock('x').acquire({ claims: [guard], sealOnRelease: false });
      await world.until('asked', () => guard.claims.length === 1);
      guard.answer();
      expect(await (await acquiring).release()).toEqual({ outcome: 'released', sealed: undefined });
      expect(guard.seals).toEqual([]);
    });
  });
}

/** A guard that answers when it is told to. */
class SlowGuard implements Claimable {
  readonly resource: string;
  readonly claims: FencingToken[] = [];
  readonly seals: FencingToken[] = [];
  readonly #waiting: (() => void)[] = [];

  constructor(resource: string) {
    this.resource = resource;
  }

  claim(token: FencingToken): Promise<void> {
    this.claims.push(token);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  seal(token: FencingToken): Promise<void> {
    this.seals.push(token);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  answer(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
