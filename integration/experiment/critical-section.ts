// The three ways to do one update under a lock. All read, work, and write, and end as the process was told.
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { Etcd3, EtcdLockFailedError } from 'etcd3';
import type pg from 'pg';
import type { Outcome, Setting } from './contestants.ts';
import { type List, ListStore } from './list-store.ts';

export interface Ending {
  readonly outcome: Outcome;
  /** What the process was told, where that was bad news. */
  readonly why?: string;
}

export interface CriticalSection extends AsyncDisposable {
  /** Appends `element` to the list, under the lock. */
  update(element: string): Promise<Ending>;
}

const NAME = 'list';

export async function openCriticalSection(setting: Setting, pool: pg.Pool): Promise<CriticalSection> {
  const store = new ListStore(pool, setting.contestant);
  const { underLock, close } =
    setting.contestant === 'etcd3' ? etcd3Way(setting, store) : await ourWay(setting, store, pool);
  return {
    update: async (element) => {
      let sent = false;
      try {
        await underLock(async (write) => {
          const { number, elements } = await store.read();
          await delay(Math.random() * setting.workMs);
          sent = true;
          await write({ number, elements: [...elements, element] });
        });
        return { outcome: 'acknowledged' };
      } catch (error) {
        const outcome = isRefusal(error) ? 'refused' : sent ? 'unknown' : 'unsent';
        return { outcome, why: String(error) };
      }
    },
    [Symbol.asyncDispose]: close,
  };
}

interface Way {
  /** Does `work` under the lock; rejects where anything went wrong. */
  underLock(work: (write: (list: List) => Promise<void>) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

async function ourWay(setting: Setting, store: ListStore, pool: pg.Pool): Promise<Way> {
  const keeper = await connect({
    hosts: setting.etcdEndpoint,
    namespace: `experiment-${setting.contestant}`,
    ttlMs: setting.ttlMs,
    identity: setting.name,
  });
  const lock = keeper.lock(NAME);
  const close = () => keeper.close();
  if (setting.contestant === 'lock') {
    return { underLock: (work) => lock.using({}, () => work((list) => store.write(list))), close };
  }
  const guard = postgresGuard(pool, { resource: NAME });
  return {
    // The token is read early: asked for after the pause, the hold would say by itself that it is lost.
    underLock: (work) =>
      lock.using({ claims: [guard] }, ({ token }) =>
        work((list) => guard.run(token, (tx) => store.write(list, tx))),
      ),
    close,
  };
}

/** The package's own lock does not wait, so whoever finds it taken asks again after 50 to 150 ms. */
function etcd3Way(setting: Setting, store: ListStore): Way {
  const client = new Etcd3({ hosts: setting.etcdEndpoint });
  const acquire = async () => {
    for (;;) {
      const lock = client.lock(`experiment-etcd3/${NAME}`).ttl(setting.ttlMs / 1000);
      try {
        return await lock.acquire();
      } catch (error) {
        if (!(error instanceof EtcdLockFailedError)) {
          // Nobody knows whether it was granted; what was, goes with its lease.
          await lock.release().catch(() => undefined);
          throw error;
        }
        await delay(50 + Math.random() * 100);
      }
    }
  };
  return {
    async underLock(work) {
      const lock = await acquire();
      try {
        await work((list) => store.write(list));
      } finally {
        await lock.release();
      }
    },
    async close() {
      client.close();
    },
  };
}

const REFUSALS: readonly string[] = ['stale-token', 'sealed'];

function isRefusal(error: unknown): boolean {
  return error instanceof GuardError && REFUSALS.includes(error.code);
}
