import type { HistoryEvent } from './history.ts';

/**
 * What can be wrong, and who promises that it is not:
 *
 * | kind | promise | meaning |
 * |---|---|---|
 * | `double-grant` | `lock` | a watch saw a lock granted while an earlier grant still stood, not both shared |
 * | `token-order` | `lock` | a later grant has a lower token |
 * | `token-reuse` | `lock` | two grants have one token |
 * | `stale-write` | `fencing` | a write or claim was accepted after a newer token's had been acknowledged |
 * | `lost-update` | `fencing` | an acknowledged write is missing in the final state |
 * | `applied-after-fail` | `fencing` | a write that certainly had no effect is in the final state |
 * | `applied-twice` | `fencing` | an entry is in the final state more often than it was written |
 * | `overlap` | `none` | two clients believed at once that they held a lock; told once a grant, with the newest other |
 */
export type FindingKind =
  | 'double-grant'
  | 'token-order'
  | 'token-reuse'
  | 'stale-write'
  | 'lost-update'
  | 'applied-after-fail'
  | 'applied-twice'
  | 'overlap';

export interface Finding {
  readonly kind: FindingKind;
  /**
   * Whose promise it breaks. `lock`: never to be seen, whatever is paused or cut off. `fencing`: never behind a
   * guard; without one it is what pauses lead to. `none`: an observation; a paused client cannot know better.
   */
  readonly promise: 'lock' | 'fencing' | 'none';
  /** The lock or the resource. */
  readonly of: string;
  /** A sentence with the values. */
  readonly message: string;
  /** The events that show it, in the order of the history; the last one completed it. */
  readonly events: readonly HistoryEvent[];
}
