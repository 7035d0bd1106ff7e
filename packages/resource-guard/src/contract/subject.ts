// What the suite needs to know of a guard; the guard's author writes it once.
import type { Guard, GuardAdmin } from '@lockkeeper/fencing';

/**
 * What a guard may lack without being wrong:
 * - `rollback`: what an effect did before it threw stays done;
 * - `overlap`: one writer at a time, even of one holder;
 * - `held-writes`: the fixture has no {@link GuardedValue.holdWrites}, so the suite cannot look at writes
 *   that wait inside the storage. Provide it if you can: it finds the faults that other tests miss;
 * - `admin`: no `inspect` and `rebase`, for a guard whose state operators cannot reach through it.
 */
export type GuardTrait = 'rollback' | 'overlap' | 'held-writes' | 'admin';

/** A guard under test. */
export interface GuardSubject<Handle> {
  readonly name: string;
  /** A fresh resource that no token has touched, with a value that is the empty string. */
  open(): Promise<GuardFixture<Handle>>;
  /** Cases that need these are skipped. Default: none. */
  readonly lacks?: readonly GuardTrait[] | undefined;
  /**
   * How long, in milliseconds, a call that ought to wait is watched for resolving too early. A right guard
   * costs the suite about ten times as much, a slow storage needs more to be caught. Default 100.
   */
  readonly temptationMs?: number | undefined;
}

export interface GuardFixture<Handle> {
  readonly guard: Guard<Handle> & Partial<GuardAdmin>;
  /** The same resource as another process would reach it: another guard object on another connection. */
  readonly other: Guard<Handle>;
  readonly value: GuardedValue<Handle>;
  /** Ends what `open` began. Called once, also after a failed case. */
  close?(): Promise<void>;
}

/** A text that is written only through the guard. */
export interface GuardedValue<Handle> {
  /** Reads inside an effect, as the effect's own work would. */
  read(handle: Handle): Promise<string>;
  /** Overwrites the value inside an effect. */
  write(handle: Handle, value: string): Promise<void>;
  /** The value as everybody sees it now, past the guard and waiting for nothing. */
  peek(): Promise<string>;
  /**
   * From now on writes wait inside the storage, as behind somebody else's row lock, until `letGo`.
   * `reached` resolves when a write waits there.
   */
  holdWrites?(): Promise<HeldWrites>;
}

export interface HeldWrites {
  readonly reached: Promise<void>;
  letGo(): Promise<void>;
}

/** A case of the suite: rejects where the guard breaks its promise. */
export interface GuardCase {
  readonly name: string;
  readonly needs?: GuardTrait | undefined;
  run<Handle>(subject: GuardSubject<Handle>): Promise<void>;
}
