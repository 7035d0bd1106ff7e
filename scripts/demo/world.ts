// Where the story is played: on real servers and processes, or simulated in this process.
import type { AccountState } from './account.ts';
import type { Entry } from './add-entry.ts';
import type { Fact } from './story.ts';

/** What comes between A's check and the arrival of its write. */
export type Hindrance =
  /** A does not run. */
  | 'pause'
  /** A runs, and its write is out, but its network passes nothing on for a while. */
  | 'outage';

export interface Scene {
  /** Names the account, its lock and its guard, each used by this scene alone. */
  readonly name: string;
  readonly hindrance: Hindrance;
  readonly guarded: boolean;
}

/** Notes a fact; `at` is wall time, by default now. */
export type RecordFact = (fact: Fact, at?: number) => void;

/** What the parties are called. */
export interface Names {
  readonly coordinator: string;
  readonly storage: string;
}

export interface World {
  readonly simulated: boolean;
  /** What coordinates, with its version as it told it: `etcd 3.5.30`. */
  readonly coordinator: string;
  /** What stores, likewise. */
  readonly storage: string;
  readonly names: Names;
  readonly ttlMs: number;
  /** One sentence on who A and B are. */
  readonly cast: string;
  /** Wall time, milliseconds since the epoch. */
  now(): number;
  open(scene: Scene, record: RecordFact): Promise<Stage>;
  /** Ends everything that belongs to it. Idempotent. */
  close(): Promise<void>;
}

/** One account, one lock, and the two who use them. */
export interface Stage {
  /** Resolves when A has passed its check and its write cannot reach the storage. */
  startA(entry: Entry): Promise<void>;
  /** Resolves when B is done and the coordinator was seen to have removed A's key. */
  runB(entry: Entry): Promise<void>;
  /** Ends the hindrance and resolves when A is done, however it went. */
  letAGoOn(): Promise<void>;
  readAccount(): Promise<AccountState>;
  close(): Promise<void>;
}
