import type { Keeper } from '@lockkeeper/core';
import { type Claimable, FencingToken } from '@lockkeeper/fencing';
import { verifiedGuard } from '@lockkeeper/resource-guard/http';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { describe, expect, it } from 'vitest';
import type { LockWorld, MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Readers and writers of a read/write lock at a guard: each hold's token says which of them it is. */
export function describeSharedTokens(where: string, newWorld: MakeLockWorld): void {
  const newGuard = () => memoryGuard({ resource: 'accounts', requireClaim: true });
  const stale = { code: 'stale-token', outcome: 'rejected' };

  describe(`locks on ${where}: tokens of readers and writers`, () => {
    it('readers claim one after another and all go on; a writer from before is refused', async () => {
      const world = await newWorld();
      const [a, b, c] = await threeKeepers(world);
      const guard = newGuard();
      const claims = [guard];
      const writer = await a.readWriteLock('x').write.acquire({ claims, sealOnRelease: false });
      await writer.release();
      const first = await b.readWriteLock('x').read.acquire({ claims });
      const second = await c.readWriteLock('x').read.acquire({ claims });
      expect([writer, first, second].map(({ token }) => token.shared)).toEqual([false, true, true]);
      await expect(guard.run(writer.token, () => 'late')).rejects.toMatchObject(stale);
      expect(await guard.run(first.token, () => 'read')).toBe('read');
      expect(await first.release()).toEqual({ outcome: 'released', sealed: true });
      expect(await guard.run(second.token, () => 'read')).toBe('read');
      await second.release();
      await expect(guard.run(second.token, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
      const next = await a.readWriteLock('x').write.acquire({ claims });
      for (const { token } of [first, second]) {
        await expect(guard.run(token, () => 'late')).rejects.toMatchObject(stale);
      }
      expect(await guard.run(next.token, () => 'written')).toBe('written');
    });

    it('a downgrade claims before it lets readers in, and refuses what the writer had sent', async () => {
      const world = await newWorld();
      const [a, b] = await threeKeepers(world);
      const guard = newGuard();
      const gate = new ClaimGate(guard);
      const writer = await a.readWriteLock('x').write.acquire({ claims: [gate] });
      const exclusive = writer.token;
      const reading = settled(b.readWriteLock('x').read.acquire({ claims: [guard] }));
      await world.until('a reader behind', async () => (await holders(b)).waiters.length === 1);
      gate.close();
      const downgrading = writer.downgrade();
      await world.until('asked again', () => gate.asked);
      expect(`${writer.token}`).toBe(`${exclusive}:shared`);
      await world.passTime(500);
      expect((await holders(b)).holders).toMatchObject([{ mode: 'write', token: exclusive }]);
      gate.open();
      await soon(world, downgrading);
      await expect(guard.run(exclusive, () => 'late')).rejects.toMatchObject(stale);
      const { value: reader } = await soon(world, reading);
      expect(await guard.run(writer.token, () => 'read')).toBe('read');
      expect(await guard.run(reader?.token ?? exclusive, () => 'read')).toBe('read');
      expect((await holders(b)).holders).toMatchObject([
        { mode: 'read', token: writer.token },
        { mode: 'read', token: reader?.token },
      ]);
      expect(await writer.release()).toEqual({ outcome: 'released', sealed: true });
      await reader?.release();
    });

    it('a downgrade that no guard promises can be tried again, and the readers wait', async () => {
      const world = await newWorld();
      const [a, b] = await threeKeepers(world);
      const guard = newGuard();
      const gate = new ClaimGate(guard);
      const writer = await a.readWriteLock('x').write.acquire({ claims: [gate], claimTimeoutMs: 200 });
      gate.close();
      const failed = await soon(world, settled(writer.downgrade()));
      expect(failed.error).toMatchObject({ code: 'claim-timeout' });
      expect(await b.readWriteLock('x').read.tryAcquire()).not.toHaveProperty('hold');
      gate.open();
      await soon(world, writer.downgrade());
      expect((await soon(world, b.readWriteLock('x').read.acquire())).standing).toBe('held');
      await writer.release();
      await expect(guard.run(writer.token, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
    });

    it('breaks a reader behind a writer that became one: its guards are sealed, and nobody else is', async () => {
      const world = await newWorld();
      const [a, b, operator] = await threeKeepers(world);
      const guard = newGuard();
      const writer = await a.readWriteLock('x').write.acquire({ claims: [guard] });
      await writer.downgrade();
      const reader = await b.readWriteLock('x').read.acquire({ claims: [guard] });
      const [, shown] = (await holders(operator)).holders;
      expect(await operator.list()).toMatchObject([
        { kind: 'readWrite', holders: 2, waiters: 0, holder: { mode: 'read', token: writer.token } },
      ]);
      expect(`${shown?.token}`).toBe(`${reader.token}`);
      // The text without its mode names the same grant, and must not shut the other reader out.
      const { lineage, revision, acquisition } = reader.token;
      const token = `${lineage}:${revision}:${acquisition}`;
      const broken = await operator.break('x', { kind: 'readWrite', token, guards: [guard] });
      expect(broken).toEqual({ outcome: 'broken', unsealed: [] });
      await expect(guard.run(reader.token, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
      expect(await guard.run(writer.token, () => 'read')).toBe('read');
      await writer.release();
    });

    it('breaks a writer in the middle of its downgrade, in both of its modes', async () => {
      const world = await newWorld();
      const [a, operator] = await threeKeepers(world);
      const [guard, other] = [newGuard(), newGuard()];
      const gate = new ClaimGate(other);
      const writer = await a.readWriteLock('x').write.acquire({ claims: [guard, gate] });
      const { token } = writer;
      gate.close();
      const downgrading = settled(writer.downgrade());
      await world.until('one of two promised', async () => (await guard.inspect())?.token.shared === true);
      const guards = [guard, other];
      await operator.break('x', { kind: 'readWrite', token, guards });
      gate.open();
      expect(await soon(world, downgrading)).toHaveProperty('error');
      for (const each of guards) {
        await expect(each.run(token, () => 'late')).rejects.toMatchObject(stale);
        await expect(each.run(writer.token, () => 'late')).rejects.toMatchObject({ code: 'sealed' });
      }
    });

    it('a verifier knows readers, writers, and writers that became readers', async () => {
      const world = await newWorld();
      const [a, b, c] = await threeKeepers(world);
      const verify = c.tokenVerifier('x', { kind: 'readWrite' });
      const inMode = (token: FencingToken, shared: boolean) => new FencingToken({ ...token, shared });
      const unverified = (message: RegExp) => ({
        code: 'unverified',
        message: expect.stringMatching(message),
      });
      const writer = await a.readWriteLock('x').write.acquire();
      const exclusive = writer.token;
      await verify(exclusive);
      // Its guards are asked as for a reader before etcd knows.
      await verify(inMode(exclusive, true));
      const waiting = settled(b.readWriteLock('x').read.acquire());
      await world.until('a reader behind', async () => (await holders(c)).waiters.length === 1);
      const [waiter] = (await holders(c)).waiters;
      const queued = c.tokenVerifier('x', { kind: 'readWrite' });
      await expect(queued(waiter?.token ?? exclusive)).rejects.toMatchObject(unverified(/still queued/));
      await writer.downgrade();
      const { value: reader } = await soon(world, waiting);
      await verify(writer.token);
      await verify(reader?.token ?? expect.unreachable());
      await expect(verify(exclusive)).rejects.toMatchObject(unverified(/is a reader's/));
      const asWriter = inMode(reader?.token ?? exclusive, false);
      await expect(verify(asWriter)).rejects.toMatchObject(unverified(/is a reader's/));
      const plain = await a.lock('x').acquire();
      await a.tokenVerifier('x')(plain.token);
      const asReader = a.tokenVerifier('x')(inMode(plain.token, true));
      await expect(asReader).rejects.toMatchObject(unverified(/not a reader's/));
      await writer.release();
      await expect(verify(writer.token)).rejects.toMatchObject(unverified(/no such grant/));
      expect(() => c.tokenVerifier('x', { kind: 'election' as never })).toThrow('kind is "election"');
    });

    it('a guard that verifies lets no invented reader in beside real ones', async () => {
      const world = await newWorld();
      const [a, b, c] = await threeKeepers(world);
      const guard = verifiedGuard(newGuard(), c.tokenVerifier('x', { kind: 'readWrite' }));
      const first = await a.readWriteLock('x').read.acquire({ claims: [guard] });
      const second = await b.readWriteLock('x').read.acquire({ claims: [guard] });
      const invented = new FencingToken({ ...first.token, revision: first.token.revision, acquisition: 'x' });
      for (const call of [guard.run(invented, () => 'read'), guard.claim(invented), guard.seal(invented)]) {
        await expect(call).rejects.toMatchObject({ code: 'unverified' });
      }
      for (const { token } of [first, second]) expect(await guard.run(token, () => 'read')).toBe('read');
      await first.release();
      // Known from before: the guard itself decides, and readers do not fence each other.
      expect(await guard.run(first.token, () => 'late')).toBe('late');
      const again = verifiedGuard(newGuard(), c.tokenVerifier('x', { kind: 'readWrite' }));
      await again.claim(second.token);
      await expect(again.run(first.token, () => 'late')).rejects.toMatchObject({ code: 'unverified' });
    });
  });
}

async function threeKeepers(world: LockWorld): Promise<[Keeper, Keeper, Keeper]> {
  return [await world.keeper(), await world.keeper(), await world.keeper()];
}

function holders(keeper: Keeper) {
  return keeper.inspect('x', { kind: 'readWrite' });
}

/** Claims of a guard that do not get through for a while. */
class ClaimGate implements Claimable {
  readonly resource: string;
  readonly #guard: Claimable;
  #opened: Promise<void> | undefined;
  #open: () => void = () => undefined;
  asked = false;

  constructor(guard: Claimable) {
    this.resource = guard.resource;
    this.#guard = guard;
  }

  close(): void {
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#open();
    this.#opened = undefined;
  }

  async claim(token: FencingToken): Promise<void> {
    this.asked = this.#opened !== undefined;
    await this.#opened;
    await this.#guard.claim(token);
  }

  seal(token: FencingToken): Promise<void> {
    return this.#guard.seal(token);
  }
}
