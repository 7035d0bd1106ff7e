import type { Election, Keeper, Lock, LockOptions } from '@lockkeeper/core';

/** What is acquired: one thing, or several locks as one. */
export type Target =
  | { readonly kind: 'lock' | 'read' | 'write'; readonly name: string }
  | { readonly kind: 'election'; readonly name: string }
  | { readonly kind: 'set'; readonly names: readonly string[] };

/**
 * The queues in which its keys stand, like `lock/red`. They are the names of what is guarded, too: guards know
 * nothing but tokens, whose order is that of one queue.
 */
export function queuesOf(target: Target): readonly string[] {
  switch (target.kind) {
    case 'lock':
    case 'election':
      return [`${target.kind}/${target.name}`];
    case 'read':
    case 'write':
      return [`rw/${target.name}`];
    case 'set':
      return target.names.map((name) => `lock/${name}`);
  }
}

export function describeTarget(target: Target): string {
  return target.kind === 'set' ? `set ${target.names.join(' + ')}` : `${target.kind} ${target.name}`;
}

export function lockOf(
  keeper: Keeper,
  target: Exclude<Target, { kind: 'election' }>,
  options: LockOptions,
): Lock {
  switch (target.kind) {
    case 'lock':
      return keeper.lock(target.name, options);
    case 'read':
    case 'write':
      return keeper.readWriteLock(target.name, options)[target.kind];
    case 'set':
      return keeper.locks(target.names, options);
  }
}

export function electionOf(keeper: Keeper, name: string, options: LockOptions): Election {
  return keeper.election(name, options);
}
