// One process that holds many locks, or waits for one many times, and tells what that costs it while nothing happens.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { Etcd3 } from 'etcd3';

export type HoldsContestant = 'lockkeeper' | 'etcd3-lock' | 'waiters';

export interface Cost {
  /** Of the heap, beside what a process has with none, each. */
  readonly bytesEach: number;
  /** Of one core, 0 to 1. */
  readonly cpuShare: number;
}

/** Acquires one more, or waits in one more place; resolves once that is certain. */
type Add = (index: number) => Promise<unknown>;

const CONTESTANTS: Readonly<Record<HoldsContestant, (hosts: string, ttlMs: number) => Promise<Add>>> = {
  lockkeeper: async (hosts, ttlMs) => {
    const keeper = await connect({ hosts, ttlMs, namespace: 'holds' });
    return (index) => keeper.lock(`name-${index}`).acquire();
  },
  /** All for one lock, which is never released. */
  waiters: async (hosts, ttlMs) => {
    const keeper = await connect({ hosts, ttlMs, namespace: 'waiters' });
    await keeper.lock('name').acquire();
    const { coordinator } = keeper;
    return async (index) => {
      void keeper.lock('name').acquire();
      // Each batch of a hundred: until all of it is in line.
      while (index % 100 === 99) {
        const prefix = { key: 'waiters/lock/name/', rangeEnd: 'waiters/lock/name0' };
        const read = { ...prefix, limit: 1, keysOnly: true };
        const { count } = await coordinator.range(read, { timeoutMs: 60_000 });
        if (count >= index + 2) return;
        await sleep(5);
      }
    };
  },
  'etcd3-lock': async (hosts, ttlMs) => {
    const client = new Etcd3({ hosts });
    return (index) =>
      client
        .lock(`name-${index}`)
        .ttl(ttlMs / 1_000)
        .acquire();
  },
};

/** What was added must not be collected. */
const kept: unknown[] = [];

async function grow(add: Add, count: number): Promise<void> {
  for (let from = 0; from < count; from += 100) {
    const size = Math.min(100, count - from);
    kept.push(...(await Promise.all(Array.from({ length: size }, (_, index) => add(from + index)))));
  }
}

function heap(): number {
  global.gc?.();
  return process.memoryUsage().heapUsed;
}

async function measure(kind: HoldsContestant, hosts: string, count: number, ms: number): Promise<Cost> {
  const add = await CONTESTANTS[kind](hosts, ms);
  const before = heap();
  await grow(add, count);
  // The keys of holds are watched only once they have lasted for a moment.
  await sleep(2_000);
  const bytesEach = (heap() - before) / count;
  process.send?.('begins');
  const cpu = process.cpuUsage();
  await sleep(ms);
  const { user, system } = process.cpuUsage(cpu);
  return { bytesEach, cpuShare: (user + system) / 1_000 / ms };
}

const [kind, hosts = '', count, ms] = process.argv.slice(2);
process.send?.(await measure(kind as HoldsContestant, hosts, Number(count), Number(ms)), () =>
  process.exit(),
);
