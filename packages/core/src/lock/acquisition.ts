import { hostname } from 'node:os';
import type { Claimable } from '@lockkeeper/fencing';
import { timestamp } from '../clock.ts';
import type { Compare, Coordinator, KeyValue } from '../coordinator/coordinator.ts';
import { LockkeeperError, type LossCause } from '../errors.ts';
import { printable } from '../json.ts';
import type { ResolvedOptions } from '../options.ts';
import type { Session, SessionMember } from '../session/session.ts';
import { AbortScope, type AbortSignalLike } from '../signals.ts';
import type { HoldClass } from './hold.ts';
import type { KeyLayout, Queue } from './key-layout.ts';
import { randomId } from './random-id.ts';

/**
 * Who stands behind a key in a queue. `etcdctl lock` and Go clients write no details. `JSON.stringify` prints
 * its bigints as decimal strings.
 */
export interface Contender {
  readonly key: string;
  /** 0n: the key was detached from its lease and blocks until an operator removes it. */
  readonly lease: bigint;
  readonly createRevision: bigint;
  readonly acquisition: string | undefined;
  readonly identity: string | undefined;
  readonly host: string | undefined;
  readonly pid: number | undefined;
  /** Wall time of the contender's host when it queued, ISO 8601. */
  readonly since: string | undefined;
}

/** What is acquired: one queue, or several that are entered and left together. */
export interface LockTarget {
  /** For people and events. */
  readonly name: string;
  /** What messages call it. Default: lock. */
  readonly noun?: string;
  /** At least one, of different families. */
  readonly queues: readonly Queue[];
  /** The value of own keys, where it is the user's. */
  readonly value?: string;
  /** What a grant gives. Default: a {@link Hold}. */
  readonly Hold?: HoldClass;
  /** How the turn comes. Default: when nobody stands before us in any queue. */
  readonly admit?: Admit;
  /** The guards of what was granted, where that is known only then. Default: those of the options. */
  readonly claimsOf?: (acquisition: Acquisition) => readonly Claimable[];
}

/**
 * Waits until an acquisition that is in line may hold, and adds to its places what the grant needs.
 * @param onWait - called whenever all that is missing is that somebody else leaves.
 * @returns the revision of the grant's token, or, where `mode` is `try` and it is not our turn, who is in the way.
 */
export type Admit = (
  coordinator: Coordinator,
  acquisition: Acquisition,
  mode: 'queue' | 'try',
  signal: AbortSignalLike,
  onWait: () => void,
) => Promise<{ readonly revision: bigint } | { readonly holder: KeyValue | undefined }>;

export function titleOf({ noun = 'lock', name }: Pick<LockTarget, 'name' | 'noun'>): string {
  return `${noun} "${name}"`;
}

/** Where one acquisition stands in one queue. */
export interface Place {
  readonly key: string;
  /** The key whose value says whose acquisition this is; mostly the same. */
  readonly detailsKey: string;
  /** Whether others may have their key in this very place, so that what is found there need not be ours. */
  readonly isShared: boolean;
  /** Whether its holder may rewrite the value of our key. Then that is told by its create revision. */
  readonly isRewritable: boolean;
  /** The revision at which our key was put, once we know it. */
  revision: bigint | undefined;
}

/** A place in a queue of which we wait to be the first. */
export interface QueuePlace extends Place {
  readonly queue: Queue;
  readonly slot: number;
}

/** Where we are, as part of a JSON text. */
const WHERE = JSON.stringify({ host: hostname(), pid: process.pid }).slice(1, -1);

/**
 * One attempt to get a lock: its random id, its keys and slots, and how many sent copies of its enqueue
 * transaction were never answered. It belongs to one session from its first message until its ending is
 * confirmed, or the session is lost, whichever is first.
 */
export class Acquisition implements SessionMember {
  readonly id: string = randomId();
  readonly session: Session;
  readonly queues: readonly QueuePlace[];
  /** Every key that is ours while this lasts: those in queues, and what the grant may add. */
  places: readonly Place[];
  /** Whether the ending takes the marks back: we left them, began, and were released. */
  mayTakeBackMark = false;
  isReleased = false;
  /** Copies of the enqueue transaction that may still take effect, now or later. */
  unanswered = 0;
  /** Why etcd could not be reached at the last try. */
  trouble: LockkeeperError | undefined;
  /** Whether keys of ours may be in etcd. */
  mayExist = false;
  readonly #target: LockTarget;
  readonly #layout: KeyLayout;
  readonly #identity: string;
  /** Wall time. */
  readonly #since: number;
  #scope: AbortScope | undefined;
  #dependent: SessionMember | undefined;
  #lost: LockkeeperError | undefined;
  #ended = false;

  constructor(target: LockTarget, session: Session, layout: KeyLayout, options: ResolvedOptions) {
    this.#target = target;
    this.#layout = layout;
    this.#identity = options.identity;
    this.#since = options.clock.wallTime();
    this.session = session;
    const { leaseHex, slots } = session;
    this.queues = target.queues.map((queue) => {
      const { keys, details, isRewritable = false } = queue;
      const slot = slots.take(keys);
      const key = layout.contender(keys, leaseHex, slot);
      const detailsKey = details === undefined ? key : layout.contender(details, leaseHex, slot);
      return { queue, slot, key, detailsKey, isShared: false, isRewritable, revision: undefined };
    });
    this.places = this.queues;
    // Tells us at once where the session was lost in the meantime.
    session.join(this);
  }

  // Texts that are seldom needed are made when they are: there may be tens of thousands of us.

  get name(): string {
    return this.#target.name;
  }

  /** What messages call it: `semaphore "x"`. */
  get title(): string {
    return titleOf(this.#target);
  }

  get cancelledKey(): string {
    return this.#layout.cancelled(this.id);
  }

  /** Where others ask us to let go. */
  get requestKey(): string {
    return this.#layout.request(this.id);
  }

  get lineageKey(): string {
    return this.#layout.lineage;
  }

  /** What says that a key is ours; the same for as long as this lasts. */
  get details(): string {
    const who = JSON.stringify(this.#identity);
    const since = timestamp(this.#since);
    return `{"v":1,"acquisition":"${this.id}","identity":${who},${WHERE},"since":"${since}"}`;
  }

  /** What our keys hold; mostly the details. */
  get value(): string {
    return this.#target.value ?? this.details;
  }

  /**
   * What a holder leaves behind until its release, where a lock-delay is asked for: in every place where it holds alone,
   * which of a semaphore is the slot.
   */
  get marks(): readonly string[] {
    const slots = this.places.filter(({ isShared }) => isShared).map(({ key }) => key);
    const alone = slots.length > 0 ? slots : this.queues.map(({ queue }) => queue.keys);
    return alone.map((place) => this.#layout.mark(place));
  }

  /** Since when we stand in our queues; 0n before. */
  get revision(): bigint {
    return this.queues[0]?.revision ?? 0n;
  }

  /** We stand in all our queues since this revision. */
  queuedAt(revision: bigint): void {
    for (const place of this.queues) place.revision = revision;
  }

  /**
   * What tells our key in a place from every other one: the revision where we know it, which no other key can have,
   * else the details of this acquisition. A key that we may rewrite has to be on our lease still: a put by anybody else
   * takes it off.
   */
  standsAt({ key, detailsKey, isRewritable, revision }: Place): readonly Compare[] {
    if (revision === undefined) return [{ key: detailsKey, target: 'value', is: '=', to: this.details }];
    if (!isRewritable) return [{ key, target: 'modRevision', is: '=', to: revision }];
    return [
      { key, target: 'createRevision', is: '=', to: revision },
      { key, target: 'lease', is: '=', to: this.session.lease },
    ];
  }

  /** Whether a key of ours is as we left it: written once, or by nobody but its owner. */
  isIntact({ isRewritable, revision }: Place, kv: KeyValue): boolean {
    if (!isRewritable) return kv.modRevision === revision;
    return kv.createRevision === revision && kv.lease === this.session.lease;
  }

  /** True while etcd is in the history that this acquisition's session began in. */
  get lineageCompare(): Compare {
    return this.session.lineageCompare;
  }

  /** Whether what stands at the lineage's key is still the name of that history. */
  isInHistory(lineage: KeyValue | undefined): boolean {
    return lineage !== undefined && new TextDecoder().decode(lineage.value) === this.session.lineage;
  }

  /** For what this acquisition waits for: aborts when the session is lost. Who only stands keeps none. */
  get scope(): AbortScope {
    if (this.#scope === undefined) {
      this.#scope = new AbortScope();
      if (this.#lost !== undefined) this.#scope.abort(this.#lost);
    }
    return this.#scope;
  }

  /** That wait is over, and whatever ended it: the next one gets a scope of its own. */
  closeScope(): void {
    this.#scope?.[Symbol.dispose]();
    this.#scope = undefined;
  }

  /** From now on whoever waits for the grant, and then the hold, is told of the loss; at once where it was before. */
  tell(dependent: SessionMember): void {
    this.#dependent = dependent;
    if (this.#lost?.lossCause !== undefined) dependent.onSessionLost(this.#lost.lossCause);
  }

  onSessionLost(cause: LossCause): void {
    this.#lost = this.lostWhileWaiting(cause);
    this.#scope?.abort(this.#lost);
    this.#dependent?.onSessionLost(cause);
  }

  lostWhileWaiting(cause: LossCause): LockkeeperError {
    const why = this.session.lossCause === undefined ? cause : this.session.describeLoss();
    return new LockkeeperError('lost-while-waiting', `${this.title}: lost before it was granted (${why})`, {
      lossCause: cause,
    });
  }

  /** Our keys are certainly gone from etcd, or die with the session: the slots are free again. */
  settle(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const { queue, slot } of this.queues) this.session.slots.free(queue.keys, slot);
    this.session.leave(this);
  }
}

/** Reads who wrote a key of a queue; tolerates what other programs write there. */
export function readContender(kv: KeyValue): Contender {
  const { key, lease, createRevision } = kv;
  const fields = parseDetails(new TextDecoder().decode(kv.value));
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  return printable({
    key,
    lease,
    createRevision,
    acquisition: text(fields.acquisition),
    identity: text(fields.identity),
    host: text(fields.host),
    pid: typeof fields.pid === 'number' ? fields.pid : undefined,
    since: text(fields.since),
  });
}

/** The details of a writer that has become a reader, in the place that it has. */
export function downgraded(details: string): string {
  return JSON.stringify({ ...(JSON.parse(details) as object), downgraded: true });
}

export function isDowngraded({ value }: KeyValue): boolean {
  // Most reads ask for keys only.
  return value.length > 0 && parseDetails(new TextDecoder().decode(value)).downgraded === true;
}

type Details = {
  readonly [field in 'acquisition' | 'identity' | 'host' | 'pid' | 'since' | 'downgraded']?: unknown;
};

function parseDetails(json: string): Details {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
