import type { LockkeeperError, LossCause } from '@lockkeeper/core';
import type { Attempt } from './acquire-rules.ts';
import type { Grant } from './observer.ts';
import { type AnyHold, describeTarget } from './target.ts';

/** A hold that was granted, as far as it concerns the checker. */
export interface Held extends Grant {
  readonly attempt: Attempt;
  readonly hold: AnyHold;
  readonly token: bigint;
  /** As a careful user keeps it aside: only timers and looks at the hold update it. */
  readonly signal: AbortSignal;
  readonly lease: bigint;
  /** In which it stands. */
  readonly queues: readonly string[];
  /** What it guards; nobody else may hold one of these. */
  readonly resources: readonly string[];
  /** True time. */
  readonly grantedAt: number;
  /** As its process counts. */
  readonly grantedAtOwnTime: number;
  /** When the work under it had ended, or its release began; true time. */
  settledAt: number | undefined;
  /** Only for writers. */
  downgradeBegun: boolean;
  /** When it was told to be lost; true time. */
  lostAt: number | undefined;
}

export function isOver({ settledAt, lostAt }: Held): boolean {
  return settledAt !== undefined || lostAt !== undefined;
}

/** How long it has been held at most, as its process counts. */
export function heldAtMostMs({ attempt }: Held): number {
  return attempt.process.now() - attempt.startedAtOwnTime;
}

export function describeHeld({ attempt, token }: Held): string {
  return `${attempt.process.name}'s hold of ${describeTarget(attempt.visit.target)} (${attempt.visit.id}, token ${token})`;
}

/** What a lost hold tells of its loss. */
export function lossOf(hold: AnyHold): LossCause | undefined {
  try {
    hold.assertHeld();
    return undefined;
  } catch (error) {
    return (error as LockkeeperError).lossCause;
  }
}
