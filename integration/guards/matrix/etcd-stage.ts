// etcd as a stage: both owners have real holds of keepers of their own; the old one loses its hold with its lease,
// which is revoked. The check is `hold.compare()`, in the transaction that writes.
import { LockkeeperError } from '@lockkeeper/core';
import { chunkContaining } from '@lockkeeper/testkit';
import { type EtcdAccount, type EtcdClient, openEtcdStore } from '../stores/etcd.ts';
import type { Owner, Stage } from './scene.ts';

export async function etcdStage(): Promise<Stage> {
  const store = await openEtcdStore();
  return {
    name: store.name,
    setScene: async (kind) => {
      const account = await store.newAccount();
      const clients = { a: await account.newClient(), b: await account.newClient() };
      const guarded = kind === 'guarded';
      return {
        // The old owner sends a transaction that was put together while it held the lock: etcd alone refuses it.
        a: owner(account, clients.a, guarded ? clients.a.writeComparing : clients.a.writePlain),
        b: owner(account, clients.b, guarded ? clients.b.writeFenced : clients.b.writePlain),
        peek: account.peek,
        restart: store.restart,
        backup: store.backup,
        [Symbol.asyncDispose]: async () => {
          await clients.a[Symbol.asyncDispose]();
          await clients.b[Symbol.asyncDispose]();
        },
      };
    },
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

function owner(account: EtcdAccount, client: EtcdClient, write: (text: string) => Promise<void>): Owner {
  return {
    proxy: client.proxy,
    carries: chunkContaining,
    grant: async () => {
      await account.evict();
      await client.acquire();
    },
    // The grant is all there is: nothing in etcd has to be told of it.
    claim: async () => {},
    finish: () => client.release(),
    overwrite: (text) => write.call(client, text),
    rewrite: async (edit, { beforeWrite, beforeEnd }) => {
      const text = edit(await account.peek());
      await beforeWrite?.();
      await beforeEnd?.();
      await write.call(client, text);
    },
    told: (error) => {
      if (!(error instanceof LockkeeperError)) throw error;
      if (error.code === 'lost') return 'rejected';
      return error.outcome === 'unknown' ? 'unknown' : 'failed';
    },
  };
}
