// What a pause point is played with: two owners of one account, and what can be done to the storage under them.
// Guarded, unguarded and etcd's own form look alike here, so each point is written once.
import type { ChunkMatcher, TcpProxy } from '@lockkeeper/testkit';

/** What became of a write, as its writer was told. */
export type Told = 'applied' | 'rejected' | 'failed' | 'unknown';

/** One owner of the account, with its own connection and its own token. */
export interface Owner {
  /** Gets the lock. Whoever had it before has lost it, and need not know. */
  grant(): Promise<void>;
  /** What acquiring does with a guard before it resolves. */
  claim(): Promise<void>;
  /** What releasing does with a guard, or with the lock. */
  finish(): Promise<void>;
  /** One overwrite with a text that was put together before. */
  overwrite(text: string): Promise<void>;
  /** A run that reads, pauses, writes, pauses, and ends. */
  rewrite(edit: (text: string) => string, pauses: Pauses): Promise<void>;
  /** None where there is no network. */
  readonly proxy: TcpProxy | undefined;
  /** Finds the chunk that brings the storage the write of `entry`. */
  carries(entry: string): ChunkMatcher;
  /** Throws what is no answer of the storage. */
  told(error: unknown): Exclude<Told, 'applied'>;
}

export interface Pauses {
  /** Between the check of the token, with what was read under it, and the write. */
  readonly beforeWrite?: () => Promise<void>;
  /** After the write, before what makes it take effect. */
  readonly beforeEnd?: () => Promise<void>;
}

export interface Scene extends AsyncDisposable {
  readonly a: Owner;
  readonly b: Owner;
  /** The text as everybody sees it, past guards and proxies. */
  peek(): Promise<string>;
  restart(): Promise<void>;
  backup(): Promise<() => Promise<void>>;
}

/** What the new owner is: the next holder of the lock, or a reader of a read/write lock, where the old one wrote. */
export type NextOwner = 'writer' | 'reader';

/** A storage that was started, and its scenes. */
export interface Stage extends AsyncDisposable {
  /** With its version. */
  readonly name: string;
  setScene(kind: 'guarded' | 'plain', next: NextOwner): Promise<Scene>;
}
