// One process that holds many locks, or waits for one many times, and tells what that costs it while nothing happens.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { Etcd3 } from 'etcd3';
import { answerLines } from '../line-process.ts';

export type HoldsContestant = 'lockkeeper' | 'etcd3-lock' | 'waiters';

/** Answered with a number: see {@link growBy} and {@link idle}. */
export type HoldsOrder =
  | { readonly kind: 'grow'; readonly count: number }
  | { readonly kind: 'idle'; readonly ms: number };

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

/** Resolves with bytes of the heap, beside what a process has with none, each. */
async function growBy(add: Add, count: number): Promise<number> {
  const before = heap();
  await grow(add, count);
  // The keys of holds are watched only once they have lasted for a moment, and one after the other.
  await sleep(2_000 + count);
  return (heap() - before) / count;
}

/** Resolves with the share of one core, 0 to 1, while nothing is asked of it. */
async function idle(ms: number): Promise<number> {
  const cpu = process.cpuUsage();
  await sleep(ms);
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / 1_000 / ms;
}

const [kind, hosts = '', ttlMs] = process.argv.slice(2);
const add = await CONTESTANTS[kind as HoldsContestant](hosts, Number(ttlMs));
await answerLines((order: HoldsOrder) => (order.kind === 'grow' ? growBy(add, order.count) : idle(order.ms)));
// What it holds ends with its etcd.
process.exit();
