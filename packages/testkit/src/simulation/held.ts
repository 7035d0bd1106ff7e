import type { Hold, LockkeeperError, LossCause } from '@lockkeeper/core';
import type { Attempt } from './acquire-rules.ts';

/** A hold that was granted, as far as it concerns the checker. */
export interface Held {
  readonly attempt: Attempt;
  readonly hold: Hold;
  /** As a careful user keeps it aside: only timers and looks at the hold update it. */
  readonly signal: AbortSignal;
  readonly key: string;
  readonly lease: bigint;
  readonly token: bigint;
  /** When the work under it had ended, or its release began; true time. */
  settledAt: number | undefined;
  /** When it was told to be lost; true time. */
  lostAt: number | undefined;
}

export function isOver({ settledAt, lostAt }: Held): boolean {
  return settledAt !== undefined || lostAt !== undefined;
}

export function describeHeld({ attempt, token }: Held): string {
  return `${attempt.process.name}'s hold of ${attempt.visit.lock} (${attempt.visit.id}, token ${token})`;
}

/** What a lost hold tells of its loss. */
export function lossOf(hold: Hold): LossCause | undefined {
  try {
    hold.assertHeld();
    return undefined;
  } catch (error) {
    return (error as LockkeeperError).lossCause;
  }
}
