// A text in this process as the matrix sees it. It has no server: nothing to restart, nothing to restore, no network.
import { randomUUID } from 'node:crypto';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import type { Account, GuardedStore, StoreClient } from './store.ts';

export async function openMemoryStore(): Promise<GuardedStore<undefined>> {
  const notHere = async () => {
    throw new Error('what is in memory ends with its process');
  };
  return {
    name: `memory of Node ${process.versions.node}`,
    newAccount: async () => newAccount(),
    restart: notHere,
    backup: notHere,
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Its clients share the guard itself: that object is the state. */
function newAccount(): Account<undefined> {
  const resource = randomUUID();
  const guard = memoryGuard({ resource });
  let value = '';
  const overwrite = async (text: string) => {
    value = text;
  };
  const client: StoreClient<undefined> = {
    guard,
    read: async () => value,
    write: (_, text) => overwrite(text),
    writeGuarded: (token, text) => guard.run(token, () => overwrite(text)),
    writePlain: overwrite,
    [Symbol.asyncDispose]: async () => {},
  };
  return { resource, peek: async () => value, newClient: async () => client };
}
