// One process of those between which a lock goes round. It acquires, holds for a moment and releases, with as many at
// once as it is told, and tells when: by the machine's monotonic clock, which all its processes share.
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { Etcd3 } from 'etcd3';
import { answerLines } from '../line-process.ts';

export interface Order {
  readonly kind: 'handover';
  readonly name: string;
  readonly waiters: number;
  readonly ms: number;
  readonly holdMs: number;
}

/** Of one hold: when the acquire resolved, and when the release was called. Milliseconds. */
export type Stamp = readonly [acquiredAt: number, releasedAt: number];

interface Contender extends AsyncDisposable {
  /** `undefined`: not before the signal aborted. */
  acquire(name: string, signal: AbortSignal): Promise<{ release(): Promise<unknown> } | undefined>;
}

const TTL_MS = 30_000;

const CONTENDERS = {
  lockkeeper: async (hosts: string): Promise<Contender> => {
    const keeper = await connect({ hosts, ttlMs: TTL_MS });
    return {
      acquire: (name, signal) =>
        keeper
          .lock(name)
          .acquire({ signal })
          .catch((error: unknown) => unlessAborted(signal, error)),
      [Symbol.asyncDispose]: () => keeper.close(),
    };
  },
  'etcd3-lock': async (hosts: string): Promise<Contender> => {
    const client = new Etcd3({ hosts });
    return {
      // It fails where the lock is held; how often one tries again is up to its user.
      acquire: async (name, signal) => {
        while (!signal.aborted) {
          const lock = client.lock(name).ttl(TTL_MS / 1_000);
          const mine = await lock.acquire().catch(() => undefined);
          if (mine !== undefined) return mine;
          await sleep(50 + Math.random() * 100);
        }
        return undefined;
      },
      [Symbol.asyncDispose]: async () => client.close(),
    };
  },
};

/** Those that this file is the process of. */
export type Contending = keyof typeof CONTENDERS;

function unlessAborted(signal: AbortSignal, error: unknown): undefined {
  if (!signal.aborted) throw error;
}

async function goRound(
  contender: Contender,
  { name, waiters, ms, holdMs }: Order,
): Promise<readonly Stamp[]> {
  const stamps: Stamp[] = [];
  const end = new AbortController();
  const work = async () => {
    while (!end.signal.aborted) {
      const hold = await contender.acquire(name, end.signal);
      if (hold === undefined) return;
      const acquiredAt = now();
      await sleep(holdMs);
      stamps.push([acquiredAt, now()]);
      await hold.release();
    }
  };
  const timer = setTimeout(() => end.abort(), ms);
  await Promise.all(Array.from({ length: waiters }, work));
  clearTimeout(timer);
  return stamps;
}

function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

const [kind, endpoint = ''] = process.argv.slice(2);
const contender = await CONTENDERS[kind as Contending](endpoint);
await answerLines((order: Order) => goRound(contender, order));
await contender[Symbol.asyncDispose]();
process.exit();
