// The three ways to do one update under a lock. All read, work, and write.
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import type { FencingToken } from '@lockkeeper/fencing';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import type { RecordedProcess } from '@lockkeeper/testkit';
import { Etcd3, EtcdLockFailedError } from 'etcd3';
import type pg from 'pg';
import type { Setting } from './contestants.ts';
import { type List, ListStore } from './list-store.ts';

export interface CriticalSection extends AsyncDisposable {
  /** Appends `element` to the list, under the lock, and writes down how each step ended. */
  update(element: string): Promise<void>;
}

/** The name of the lock, and of what it is for. */
export const NAME = 'list';

export async function openCriticalSection(
  setting: Setting,
  pool: pg.Pool,
  me: RecordedProcess,
): Promise<CriticalSection> {
  const store = new ListStore(pool, setting.contestant);
  const { underLock, close } =
    setting.contestant === 'etcd3' ? etcd3Way(setting, store) : await ourWay(setting, store, pool);
  const append = async (element: string, held: Held): Promise<void> => {
    const list = await store.read();
    await delay(Math.random() * setting.workMs);
    const write = { f: 'write', resource: NAME, entry: element, token: held.token } as const;
    await me.run(write, () => held.write({ ...list, elements: [...list.elements, element] }));
  };
  return {
    update: async (element) => {
      let step = me.invoke({ f: 'acquire', lock: NAME });
      try {
        await underLock(async (held) => {
          step.ok({ token: held.token });
          try {
            await append(element, held);
          } finally {
            step = me.invoke({ f: 'release', lock: NAME, token: held.token });
          }
        });
        step.ok();
      } catch (error) {
        step.unknown(error);
      }
    },
    [Symbol.asyncDispose]: close,
  };
}

interface Held {
  /** None of the `etcd3` package's: it has no order. */
  readonly token: FencingToken | undefined;
  write(list: List): Promise<void>;
}

interface Way {
  /** Does `work` under the lock; rejects where anything went wrong. */
  underLock(work: (held: Held) => Promise<void>): Promise<void>;
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
    return {
      underLock: (work) => lock.using({}, ({ token }) => work({ token, write: (list) => store.write(list) })),
      close,
    };
  }
  const guard = postgresGuard(pool, { resource: NAME });
  return {
    // The token is read early: asked for after the pause, the hold would say by itself that it is lost.
    underLock: (work) =>
      lock.using({ claims: [guard] }, ({ token }) =>
        work({ token, write: (list) => guard.run(token, (tx) => store.write(list, tx)) }),
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
        await work({ token: undefined, write: (list) => store.write(list) });
      } finally {
        await lock.release();
      }
    },
    async close() {
      client.close();
    },
  };
}
