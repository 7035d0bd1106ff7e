import type { NetworkPlan } from './network.ts';
import type { Target } from './target.ts';

/**
 * Everything that a simulation does on purpose, as data: so that it can be written down, and shrunk by
 * leaving parts out. What chance does to single messages follows from the seed.
 */
export interface Plan {
  readonly seed: string;
  readonly clients: readonly ClientPlan[];
  readonly network: NetworkPlan;
  readonly faults: readonly Fault[];
  /** From here on nothing is disturbed any more, and everybody must come to an end. */
  readonly faultsUntilMs: number;
  readonly requireClaim: boolean;
  /** Names of messages that nothing befalls, whatever the seed says. */
  readonly spared: readonly string[];
}

/**
 * Whether nothing disturbs the clients but people and programs that interfere with their keys: then no hold
 * may be lost without one of those, and everything has to happen promptly.
 */
export function isCalm({ network, faults, clients }: Plan): boolean {
  const { slowestMs: _, ...chances } = network;
  return (
    Object.values(chances).every((chance) => chance === 0) &&
    faults.every(({ kind }) => isHarmless(kind)) &&
    clients.every(({ workers }) =>
      workers.flat().every(({ work }) => work.every((step) => !('stallMs' in step) || step.stallMs === 0)),
    )
  );
}

/** Everybody's who asks for one; 0: nobody does. */
export function lockDelayOf({ clients }: Plan): number {
  const visits = clients.flatMap(({ workers }) => workers.flat());
  return Math.max(0, ...visits.map(({ lockDelayMs }) => lockDelayMs ?? 0));
}

export function isHarmless(kind: Fault['kind']): boolean {
  return HARMLESS.has(kind);
}

const HARMLESS: ReadonlySet<Fault['kind']> = new Set([
  'delete key',
  'overwrite key',
  'revoke',
  'revoke next lease',
  'stranger queues',
  'close',
]);

export interface ClientPlan {
  readonly name: string;
  /** How fast its clocks run; 1 is true time. */
  readonly clockRate: number;
  readonly ttlMs: number;
  /** Whether what its keeper writes at the same time goes out as one transaction. */
  readonly groupCommit: boolean;
  /** Between the moments at which all that rests or thinks goes on together; `undefined`: each goes on by itself. */
  readonly momentMs: number | undefined;
  /** What it does, several things at a time, each list one after another. */
  readonly workers: readonly (readonly Visit[])[];
  /** Elections that it observes. */
  readonly onlookers: readonly Onlooker[];
}

/** One loop over `observe()`. */
export interface Onlooker {
  readonly election: string;
  readonly fromMs: number;
  /** After this it has seen enough; `undefined`: it looks on until its keeper closes. */
  readonly forMs: number | undefined;
  /** How long it takes over one change at most. */
  readonly slowMs: number;
}

/** One attempt to get something, and what is done under it. */
export interface Visit {
  readonly id: string;
  readonly target: Target;
  readonly restMs: number;
  /** `using` an election is to run work as its leader. */
  readonly how: 'acquire' | 'try' | 'using';
  /** Of a lease of its own; `undefined`: on its keeper's. */
  readonly ownTtlMs: number | undefined;
  readonly minHoldMs: number;
  readonly maxHoldMs: number | undefined;
  readonly waitTimeoutMs: number | undefined;
  readonly abortAfterMs: number | undefined;
  readonly lockDelayMs: number | undefined;
  /** Asks whoever holds to let go, so long after the call. */
  readonly asksAfterMs: number | undefined;
  /** Listens to those who ask it. */
  readonly listens: boolean;
  /** Claims at the guard; only then it is read and written under it. */
  readonly claims: boolean;
  readonly claimTimeoutMs: number;
  readonly work: readonly WorkStep[];
  readonly end: 'release' | 'release twice' | 'release, then write';
}

export type WorkStep =
  | { readonly do: 'think'; readonly ms: number }
  /** Stands still between reading and writing, without a look at the hold. */
  | { readonly do: 'guarded write'; readonly stallMs: number; readonly await: boolean }
  /** Of readers, and of writers that have downgraded. */
  | { readonly do: 'guarded read'; readonly stallMs: number; readonly await: boolean }
  | { readonly do: 'etcd write'; readonly stallMs: number; readonly await: boolean }
  /** Only under an election. */
  | { readonly do: 'proclaim'; readonly await: boolean }
  /** Only for writers: what comes after this reads alone. */
  | { readonly do: 'downgrade' }
  | { readonly do: 'look' }
  | { readonly do: 'throw' };

export type Fault = { readonly at: number } & (
  | { readonly kind: 'stop' | 'suspend' | 'cut off'; readonly client: string; readonly ms: number }
  | {
      readonly kind: 'kill' | 'close' | 'break watches' | 'revoke next lease';
      readonly client: string;
    }
  /** The lease of its oldest key, or of its oldest session without one: nothing tells the client of that. */
  | { readonly kind: 'revoke'; readonly client: string; readonly isIdle: boolean }
  | { readonly kind: 'step wall time'; readonly client: string; readonly ms: number }
  | {
      readonly kind: 'stop etcd' | 'restart etcd' | 'lose leader' | 'stop storage';
      readonly ms: number;
    }
  | { readonly kind: 'compact'; readonly back: number }
  | { readonly kind: 'delete key' | 'overwrite key'; readonly queue: string; readonly place: number }
  | { readonly kind: 'stranger queues'; readonly queue: string; readonly ms: number }
);
