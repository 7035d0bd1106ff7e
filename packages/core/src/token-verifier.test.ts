import { FencingToken } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import type { Coordinator, TxnReply } from './coordinator/coordinator.ts';
import { memoryCoordinator } from './coordinator/memory/memory-coordinator.ts';
import { VirtualClock } from './coordinator/memory/virtual-clock.ts';
import { LockkeeperError } from './errors.ts';
import { etcdTokenVerifier, type VerifierLimits } from './token-verifier.ts';

/** Lookups that wait until the test lets them go, on a clock that moves when told. */
function slowEtcd(limits: VerifierLimits = {}) {
  const clock = new VirtualClock();
  const inner = memoryCoordinator({ clock });
  const held: (() => void)[] = [];
  let asked = 0;
  let open = false;
  const txn: Coordinator['txn'] = async (request, options): Promise<TxnReply> => {
    asked += 1;
    if (!open) await new Promise<void>((resolve) => held.push(resolve));
    return inner.txn(request, options);
  };
  const coordinator: Coordinator = Object.assign(Object.create(inner) as Coordinator, { txn });
  return {
    clock,
    verify: etcdTokenVerifier(coordinator, { lock: 'l', ...limits }),
    asked: () => asked,
    held,
    letGo: () => {
      open = true;
      for (const release of held.splice(0)) release();
    },
  };
}

const forged = (revision: number) =>
  new FencingToken({ lineage: 'main', revision: BigInt(revision), acquisition: `a${revision}` });

const codeOf = (call: Promise<void>) =>
  call.then(
    () => 'verified',
    (error: { readonly code?: string }) => error.code,
  );

describe('what a verifier asks of etcd', () => {
  it('one lookup for all who present one token at once, and for those of the next second none', async () => {
    const etcd = slowEtcd();
    const all = Promise.all([1, 2, 3].map(() => codeOf(etcd.verify(forged(7)))));
    await etcd.clock.advance(0);
    expect(etcd.asked()).toBe(1);
    etcd.letGo();
    expect(await all).toEqual(['unverified', 'unverified', 'unverified']);
    await etcd.clock.advance(999);
    expect(await codeOf(etcd.verify(forged(7)))).toBe('unverified');
    expect(etcd.asked()).toBe(1);
    await etcd.clock.advance(1);
    expect(await codeOf(etcd.verify(forged(7)))).toBe('unverified');
    expect(etcd.asked()).toBe(2);
  });

  it('maxConcurrent at once; the others stand in line, a hundred of them, and give up in time', async () => {
    const etcd = slowEtcd({ maxConcurrent: 2, maxPerSecond: 10_000, timeoutMs: 1_000 });
    const calls = Array.from({ length: 103 }, (_, index) => codeOf(etcd.verify(forged(index + 1))));
    await etcd.clock.advance(0);
    expect(etcd.asked()).toBe(2);
    // Two on their way, a hundred in line: the last one is told to come again.
    expect(await calls[102]).toBe('retry');
    const stillInLine = await Promise.race([calls[101], Promise.resolve('in line')]);
    expect(stillInLine).toBe('in line');
    await etcd.clock.advance(999);
    expect(etcd.asked()).toBe(2);
    await etcd.clock.advance(1);
    expect(await Promise.all(calls.slice(2))).toEqual(Array.from({ length: 101 }, () => 'retry'));
    etcd.letGo();
    expect(await Promise.all(calls.slice(0, 2))).toEqual(['unverified', 'unverified']);
    expect(await codeOf(etcd.verify(forged(200)))).toBe('unverified');
    expect(etcd.clock.pendingTimers).toBe(0);
  });

  it('maxPerSecond in the long run, a second of it at once', async () => {
    const etcd = slowEtcd({ maxConcurrent: 1_000, maxPerSecond: 20, timeoutMs: 60_000 });
    etcd.letGo();
    const calls = Array.from({ length: 90 }, (_, index) => codeOf(etcd.verify(forged(index + 1))));
    await etcd.clock.advance(0);
    expect(etcd.asked()).toBeLessThanOrEqual(21);
    expect(etcd.asked()).toBeGreaterThanOrEqual(20);
    const before = etcd.asked();
    await etcd.clock.advance(1_000);
    expect(etcd.asked() - before).toBe(20);
    await etcd.clock.advance(10_000);
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['unverified']));
    expect(etcd.asked()).toBe(90);
  });

  it('those who gave up waiting leave their share of a second to who comes after', async () => {
    const etcd = slowEtcd({ maxPerSecond: 2, timeoutMs: 5_000 });
    etcd.letGo();
    for (const flood of [0, 1, 2]) {
      const calls = Array.from({ length: 104 }, (_, index) =>
        codeOf(etcd.verify(forged(1_000 * (flood + 1) + index))),
      );
      await etcd.clock.advance(5_000);
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['unverified', 'retry']));
    }
    const genuine = codeOf(etcd.verify(forged(7)));
    await etcd.clock.advance(1_000);
    expect(await Promise.race([genuine, Promise.resolve('still waiting')])).toBe('unverified');
    expect(etcd.asked()).toBeLessThanOrEqual(2 * 16 + 3);
  });
});

describe('a verification', () => {
  it('that nobody waits for any more does not end that of others', async () => {
    const etcd = slowEtcd();
    const stop = new AbortController();
    const gone = etcd.verify(forged(7), { signal: stop.signal });
    const staying = codeOf(etcd.verify(forged(7)));
    stop.abort(new Error('no longer wanted'));
    await expect(gone).rejects.toThrow('no longer wanted');
    etcd.letGo();
    expect(await staying).toBe('unverified');
    const late = etcd.verify(forged(8), { signal: AbortSignal.abort(new Error('before')) });
    await expect(late).rejects.toThrow('before');
    expect(etcd.asked()).toBe(1);
  });

  it('is unavailable while etcd is, and that is not remembered', async () => {
    const inner = memoryCoordinator();
    let trouble: Error | undefined = new LockkeeperError('unreachable', 'no endpoint answered');
    const coordinator: Coordinator = Object.assign(Object.create(inner) as Coordinator, {
      txn: async (...call: Parameters<Coordinator['txn']>) => {
        if (trouble !== undefined) throw trouble;
        return inner.txn(...call);
      },
    });
    const verify = etcdTokenVerifier(coordinator, { lock: 'l' });
    await expect(verify(forged(7))).rejects.toMatchObject({
      code: 'unavailable',
      outcome: 'failed',
      cause: trouble,
      message: 'lock "l": token main:7:a7 could not be verified: no endpoint answered',
    });
    trouble = undefined;
    expect(await codeOf(verify(forged(7)))).toBe('unverified');
  });

  it.each([
    [{ lock: '' }, 'lock is ""'],
    [{ lock: 'l', namespace: 7 }, 'namespace is 7'],
    [{ lock: 'l', maxConcurrent: 0 }, 'maxConcurrent is 0'],
    [{ lock: 'l', maxPerSecond: 1.5 }, 'maxPerSecond is 1.5'],
    [{ lock: 'l', timeoutMs: 0 }, 'timeoutMs is 0'],
    [undefined, 'options is undefined'],
  ])('refuses %j', (options, message) => {
    expect(() => etcdTokenVerifier(memoryCoordinator(), options as never)).toThrow(message);
    expect(() => etcdTokenVerifier({} as never, { lock: 'l' })).toThrow('coordinator is');
  });
});
