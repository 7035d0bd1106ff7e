import type { Violation } from '@lockkeeper/testkit/simulation';

/** What the parent tells a worker. `core`: the folder of a changed copy of core's sources. */
export type Order = { readonly core: string | undefined } & (
  | {
      readonly type: 'play';
      readonly from: number;
      readonly count: number;
      readonly stopAtFirst: boolean;
    }
  | { readonly type: 'shrink'; readonly seed: number }
  | { readonly type: 'trace'; readonly seed: number }
);

export interface SeedViolation extends Violation {
  readonly seed: number;
}

/** How much was played. */
export interface Tally {
  readonly seeds: number;
  readonly steps: number;
  readonly simulatedMs: number;
  readonly grants: number;
  readonly losses: number;
}

export interface SeedsPlayed extends Tally {
  readonly type: 'played';
  readonly violations: readonly SeedViolation[];
}

export interface SeedShrunk {
  readonly type: 'shrunk';
  readonly message: string;
  readonly trace: readonly string[];
  /** How many plans were tried. */
  readonly tries: number;
  /** What is left of the plan. */
  readonly parts: { readonly clients: number; readonly faults: number; readonly messages: number };
}

export interface SeedTraced {
  readonly type: 'traced';
  readonly violation: Violation | undefined;
  readonly trace: readonly string[];
}

export type Answer = SeedsPlayed | SeedShrunk | SeedTraced;
