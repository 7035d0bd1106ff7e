import type { LockkeeperError } from '../errors.ts';
import type { ResolvedOptions } from '../options.ts';
import type { SemaphoreMirrors } from '../semaphore/admission.ts';
import type { Session } from '../session/session.ts';
import type { AbortSignalLike } from '../signals.ts';
import type { Hold } from './hold.ts';
import type { KeyLayout } from './key-layout.ts';
import type { OwnershipWatch } from './ownership-watch.ts';
import type { QueueMirrors } from './queue-mirrors.ts';
import type { Surroundings } from './surroundings.ts';
import type { Wait } from './wait.ts';

/** What locks and holds need of the keeper they belong to. */
export interface LockHost {
  readonly options: ResolvedOptions;
  readonly layout: KeyLayout;
  readonly surroundings: Surroundings;
  /** Everything granted and not yet released. */
  readonly holds: Set<Hold>;
  /** Every acquire that has not been answered yet. */
  readonly waits: Set<Wait>;
  readonly ownership: OwnershipWatch;
  readonly mirrors: QueueMirrors;
  readonly semaphores: SemaphoreMirrors;
  /** Aborts when the keeper closes; so does each of the waits. */
  readonly closing: AbortSignalLike;
  /** Why no session could be opened, at the last try. */
  trouble: LockkeeperError | undefined;
  /** The session that all share, if there is one that stands. */
  standingSession(): Session | undefined;
  /** The same; opens one where there is none. */
  session(signal: AbortSignalLike): Promise<Session>;
  /** A session for one member, which ends with it: whoever gets it joins it, and retires it. */
  ownSession(ttlMs: number, signal: AbortSignalLike): Promise<Session>;
  /** Work that goes on after the caller got an answer, and never rejects; `close()` waits for it. */
  inBackground(work: Promise<unknown>): void;
}
