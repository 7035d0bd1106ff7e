// A guarded store as a stage: tokens 7 and 9, the latter shared where it is a reader's, and beside them owners that use the same storage without a guard.
import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { chunkContaining } from '@lockkeeper/testkit';
import type { Account, GuardedStore, StoreClient } from '../stores/store.ts';
import type { NextOwner, Owner, Scene, Stage } from './scene.ts';

const tokensOf = (next: NextOwner) => ({
  a: new FencingToken({ lineage: 'main', revision: 7n, acquisition: 'A' }),
  b: new FencingToken({ lineage: 'main', revision: 9n, acquisition: 'B', shared: next === 'reader' }),
});

export async function guardedStage<Handle>(open: () => Promise<GuardedStore<Handle>>): Promise<Stage> {
  const store = await open();
  return {
    name: store.name,
    setScene: (kind, next) => setScene(store, kind, next),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

async function setScene<Handle>(
  store: GuardedStore<Handle>,
  kind: 'guarded' | 'plain',
  next: NextOwner,
): Promise<Scene> {
  const tokens = tokensOf(next);
  const account = await store.newAccount();
  const clients = { a: await account.newClient(), b: await account.newClient() };
  const owner = (who: 'a' | 'b') =>
    kind === 'guarded' ? guardedOwner(clients[who], tokens[who]) : plainOwner(clients[who], account);
  return {
    a: owner('a'),
    b: owner('b'),
    peek: kind === 'guarded' ? account.peek : (account.peekPlain ?? account.peek),
    restart: () => store.restart(),
    backup: () => store.backup(),
    [Symbol.asyncDispose]: async () => {
      await clients.a[Symbol.asyncDispose]();
      await clients.b[Symbol.asyncDispose]();
    },
  };
}

function guardedOwner<Handle>(client: StoreClient<Handle>, token: FencingToken): Owner {
  const { guard } = client;
  return {
    proxy: client.proxy,
    carries: () => client.carriesWrite ?? (() => false),
    grant: async () => {},
    claim: () => guard.claim(token),
    finish: () => guard.seal(token),
    overwrite: (text) => client.writeGuarded(token, text),
    // `requireClaim`: these owners all claim, and want to be told where the storage has forgotten it.
    rewrite: (edit, { beforeWrite, beforeEnd }) =>
      guard.run(
        token,
        async (handle) => {
          const text = await client.read(handle);
          await beforeWrite?.();
          await client.write(handle, edit(text));
          await beforeEnd?.();
        },
        { requireClaim: true },
      ),
    told: (error) => {
      if (!(error instanceof GuardError)) throw error;
      return error.outcome === 'retry' ? 'failed' : error.outcome;
    },
  };
}

/** Reads, thinks, and overwrites, under a lock that nobody checks any more. */
function plainOwner<Handle>(client: StoreClient<Handle>, account: Account<Handle>): Owner {
  return {
    proxy: client.proxy,
    carries: chunkContaining,
    grant: async () => {},
    claim: async () => {},
    finish: async () => {},
    overwrite: (text) => client.writePlain(text),
    rewrite: async (edit, { beforeWrite, beforeEnd }) => {
      const text = await (account.peekPlain ?? account.peek)();
      await beforeWrite?.();
      await beforeEnd?.();
      await client.writePlain(edit(text));
    },
    // Nobody translates the driver's errors here; every one of them leaves the write in doubt.
    told: () => 'unknown',
  };
}
