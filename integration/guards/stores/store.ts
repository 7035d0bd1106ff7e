// One storage as the matrix of pause points, the benchmark and the contract suite see it: a text per account that
// is written only through the guard, by clients that each have a connection and a proxy of their own.
import type { FencingToken, Guard, GuardAdmin } from '@lockkeeper/fencing';
import type { ChunkMatcher, TcpProxy } from '@lockkeeper/testkit';

export interface GuardedStore<Handle = unknown> extends AsyncDisposable {
  /** With the version: `PostgreSQL 15.18`. */
  readonly name: string;
  /** A fresh resource that no token has touched, whose text is empty. */
  newAccount(): Promise<Account<Handle>>;
  /** Stops the server and starts it with its data, at the same address. */
  restart(): Promise<void>;
  /** Keeps a copy of all data as it is now; what it resolves with puts that copy back, server restarted. */
  backup(): Promise<() => Promise<void>>;
}

export interface Account<Handle> {
  readonly resource: string;
  /** The text as everybody sees it now, past the guard and past every proxy. */
  peek(): Promise<string>;
  /** What `writePlain` has written, where that is not what `peek` looks at. */
  readonly peekPlain?: () => Promise<string>;
  /** Another process's way to the account. */
  newClient(options?: ClientOptions): Promise<StoreClient<Handle>>;
}

export interface ClientOptions {
  /** Without a proxy, which would be part of what is measured. Default `false`. */
  readonly direct?: boolean | undefined;
}

export interface StoreClient<Handle> extends AsyncDisposable {
  readonly guard: Guard<Handle> & GuardAdmin;
  /** Between this client and the server; nobody else's traffic goes through it. None where there is no network. */
  readonly proxy?: TcpProxy | undefined;
  /** Whether a chunk on the way to the server carries the write, or what makes it take effect. */
  readonly carriesWrite?: ChunkMatcher;
  read(handle: Handle): Promise<string>;
  write(handle: Handle, text: string): Promise<void>;
  /** One guarded overwrite, by the shortest way that the guard's documentation recommends. */
  writeGuarded(token: FencingToken, text: string): Promise<void>;
  /** The same overwrite without the guard, with the same durability. */
  writePlain(text: string): Promise<void>;
}
