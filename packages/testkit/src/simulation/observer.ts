import type { WatchEvent } from '@lockkeeper/core';
import type { SimulatedEtcd } from './etcd.ts';
import { LeaderHistory } from './leader-history.ts';
import {
  acquisitionIn,
  type Contender,
  detailsOf,
  isDowngraded,
  MARKS,
  noteFirstOfMany,
  noteHeads,
  type PlaceInQueue,
  placeOf,
  REQUESTS,
  revisionOf,
  semaphoreOf,
} from './queues.ts';
import type { World } from './world.ts';

export interface Tampering {
  readonly how: 'deleted' | 'overwritten';
  /** True time. */
  readonly at: number;
}

export interface DataWrite {
  readonly key: string;
  readonly actor: string;
  readonly revision: bigint;
  readonly value: string;
}

/** A semaphore after one revision of etcd. */
export interface SemaphoreChange {
  readonly semaphore: string;
  /** As etcd has it; `undefined` before the first grant. */
  readonly permits: number | undefined;
  /** In the order in which they came. */
  readonly queue: readonly Contender[];
  readonly slots: readonly Contender[];
  readonly revision: bigint;
  readonly actor: string;
}

/** The keys of one grant, each as it was created for it: `key@revision`. */
export interface Grant {
  readonly keys: readonly string[];
}

/**
 * Sees every change of etcd in the moment in which it happens, and keeps what the queues were and are. It
 * looks at the state machine itself, past all networks.
 */
export class Observer {
  /** By key: what stands in the queues now, the older first. */
  readonly contenders = new Map<string, Contender>();
  /** All keys of every kind that exist now. */
  readonly keys = new Set<string>();
  readonly leasesRevokedOutside = new Set<bigint>();
  onDataWrite: (write: DataWrite) => void = () => {};
  onRemoved: (contender: Contender, actor: string) => void = () => {};
  /** A candidate's value was rewritten by its owner. */
  onRewritten: (contender: Contender, value: string) => void = () => {};
  /** Of a semaphore: how many permits it has now, and had before. */
  onLimit: (semaphore: string, before: number | undefined, permits: number) => void = () => {};
  /** A revision changed the queue or the slots of a semaphore; both as they are now. */
  onSemaphore: (change: SemaphoreChange) => void = () => {};
  /** A holder put its mark, or took it back (`undefined`), where another one's stood before, or none. */
  onMark: (owner: string | undefined, before: string | undefined) => void = () => {};
  /** Somebody asked the holder of an acquisition to let go. */
  onRequest: (acquisition: string, request: string) => void = () => {};
  /** By semaphore, as etcd has it. */
  readonly permits = new Map<string, number>();
  readonly #marks = new Map<string, string | undefined>();
  readonly #etcd: SimulatedEtcd;
  readonly #world: World;
  /** By `key@createRevision`. */
  readonly #created = new Map<string, Contender>();
  /** By `acquisition@createRevision`. */
  readonly #parties = new Map<string, Contender[]>();
  readonly #leaders = new Map<string, LeaderHistory>();
  readonly #removals = new Map<string, string>();
  readonly #spoilt: { readonly queue: string; readonly process: string; readonly at: number }[] = [];
  readonly #tampered = new Map<string, Tampering>();

  constructor(etcd: SimulatedEtcd, world: World) {
    this.#etcd = etcd;
    this.#world = world;
    etcd.watch(
      { key: '\0', rangeEnd: '\0', startRevision: 1n },
      { onEvents: (events) => this.#onEvents(events), onEnd: () => {} },
    );
  }

  /** Whether the keys of exactly this grant are all there, untouched. */
  isIntact({ keys }: Grant): boolean {
    return keys.every((id) => this.#stands(id)?.spoilt === false);
  }

  /** Whether others may hold beside this grant: it is a reader's, or a writer's who has become one. */
  isShared({ keys }: Grant): boolean {
    return keys.every((id) => this.#stands(id)?.shares === true);
  }

  /** Whether any key of this grant is there. */
  isLeft({ keys }: Grant): boolean {
    return keys.some((id) => this.#stands(id) !== undefined);
  }

  /** What was created so, there or gone. */
  createdAs(id: string): Contender | undefined {
    return this.#created.get(id);
  }

  #stands(id: string): Contender | undefined {
    const contender = this.#created.get(id);
    return contender !== undefined && this.contenders.get(contender.key) === contender
      ? contender
      : undefined;
  }

  /** Whether at some revision all its keys stood, and nobody before any of them. */
  wasFirst({ keys }: Grant): boolean {
    let from = 0n;
    let until: bigint | undefined;
    for (const id of keys) {
      const contender = this.createdAs(id);
      if (contender?.headRevision === undefined) return false;
      if (contender.headRevision > from) from = contender.headRevision;
      const { endRevision } = contender;
      if (endRevision !== undefined && (until === undefined || endRevision < until)) until = endRevision;
    }
    return until === undefined || from < until;
  }

  /** On whose behalf the first of the keys went; `undefined`: all are there. */
  removalOf({ keys }: Grant): string | undefined {
    const went = keys
      .map((id) => ({ id, at: this.createdAs(id)?.endRevision ?? 0n }))
      .filter(({ id }) => this.#removals.has(id))
      .sort((a, b) => Number(a.at - b.at));
    return went[0] && this.#removals.get(went[0].id);
  }

  /** What somebody who had no business there did to one of the keys first. */
  tamperingWith({ keys }: Grant): Tampering | undefined {
    let first: Tampering | undefined;
    for (const id of keys) {
      const tampering = this.#tampered.get(id);
      if (tampering !== undefined && (first === undefined || tampering.at < first.at)) first = tampering;
    }
    return first;
  }

  /** Whether a key of this process in one of these queues went, or was spoilt, without its doing. */
  wasRemovedFromOutside(queues: readonly string[], process: string, since: number): boolean {
    return this.#spoilt.some(
      (spoilt) => queues.includes(spoilt.queue) && spoilt.process === process && spoilt.at >= since,
    );
  }

  wasRevokedOutside(process: string): boolean {
    for (const lease of this.leasesRevokedOutside) if (this.#etcd.leases.get(lease) === process) return true;
    return false;
  }

  /** Who led an election, from its beginning on. */
  leadersOf(queue: string): LeaderHistory {
    const known = this.#leaders.get(queue);
    if (known !== undefined) return known;
    const history = new LeaderHistory();
    this.#leaders.set(queue, history);
    return history;
  }

  #onEvents(events: readonly WatchEvent[]): void {
    const touched = new Set<string>();
    const values = new Map<string, Uint8Array>();
    for (const event of events) if (event.type === 'put') values.set(event.kv.key, event.kv.value);
    let revision = 0n;
    for (const event of events) {
      revision = revisionOf(event);
      const key = event.type === 'put' ? event.kv.key : event.key;
      if (event.type === 'put') this.keys.add(key);
      else this.keys.delete(key);
      const place = placeOf(key);
      if (place === undefined) this.#onOther(event);
      else {
        this.#onContender(event, key, place, values.get(detailsOf(key) ?? key));
        touched.add(semaphoreOf(place.queue) ?? place.queue);
      }
    }
    for (const queue of touched) this.#look(queue, revision);
  }

  #onOther(event: WatchEvent): void {
    const key = event.type === 'put' ? event.kv.key : event.key;
    const text = event.type === 'put' ? new TextDecoder().decode(event.kv.value) : undefined;
    if (key.startsWith(MARKS)) {
      const before = this.#marks.get(key);
      this.#marks.set(key, text);
      this.onMark(text, before);
    }
    if (event.type !== 'put' || text === undefined) return;
    const { modRevision } = event.kv;
    if (key.startsWith(REQUESTS)) this.onRequest(key.slice(REQUESTS.length), text);
    const semaphore = /^lockkeeper\/(semaphore\/.*)\/limit$/.exec(key)?.[1];
    if (semaphore !== undefined) this.#limit(semaphore, Number(text));
    if (!key.startsWith('data/')) return;
    this.onDataWrite({ key, actor: this.#etcd.actor, revision: modRevision, value: text });
  }

  #limit(semaphore: string, permits: number): void {
    const before = this.permits.get(semaphore);
    this.permits.set(semaphore, permits);
    this.onLimit(semaphore, before, permits);
  }

  #onContender(event: WatchEvent, key: string, place: PlaceInQueue, details: Uint8Array | undefined): void {
    const before = this.contenders.get(key);
    if (event.type === 'delete') {
      if (before !== undefined) this.#onGone(before, event.modRevision);
      return;
    }
    const { createRevision, modRevision, lease, value } = event.kv;
    if (place.queue.startsWith('election/'))
      this.leadersOf(place.queue).wrote(key, modRevision, new TextDecoder().decode(value));
    if (before !== undefined) {
      this.#onPutAgain(before, event.kv);
      return;
    }
    const acquisition = acquisitionIn(details);
    const contender: Contender = {
      key,
      id: `${key}@${createRevision}`,
      ...place,
      lease,
      acquisition,
      createRevision,
      party: this.#partyOf(acquisition, createRevision),
      spoilt: false,
      headSince: undefined,
      headRevision: undefined,
      endRevision: undefined,
    };
    this.#created.set(contender.id, contender);
    this.contenders.set(key, contender);
    contender.party.push(contender);
  }

  #partyOf(acquisition: string | undefined, revision: bigint): Contender[] {
    if (acquisition === undefined) return [];
    const id = `${acquisition}@${revision}`;
    const party = this.#parties.get(id) ?? [];
    this.#parties.set(id, party);
    return party;
  }

  #onGone(contender: Contender, revision: bigint): void {
    const { actor } = this.#etcd;
    const { key, id } = contender;
    this.#noteStrange(contender);
    this.contenders.delete(key);
    contender.endRevision ??= revision;
    this.onRemoved(contender, actor);
    this.#removals.set(id, actor);
    if (actor === 'outside') this.#tamper(contender, 'deleted');
  }

  #onPutAgain(contender: Contender, kv: { lease: bigint; modRevision: bigint; value: Uint8Array }): void {
    const { actor } = this.#etcd;
    const owner = this.#etcd.leases.get(contender.lease);
    this.#noteStrange(contender);
    if (contender.isRewritable && actor === owner && kv.lease === contender.lease) {
      if (contender.queue.startsWith('rw/') && isDowngraded(kv.value)) contender.shares = true;
      this.onRewritten(contender, new TextDecoder().decode(kv.value));
      return;
    }
    contender.spoilt = true;
    contender.headSince = undefined;
    contender.endRevision ??= kv.modRevision;
    if (actor === 'outside') this.#tamper(contender, 'overwritten');
  }

  /** That somebody else than its owner touched it. */
  #noteStrange({ lease, queue }: Contender): void {
    const owner = this.#etcd.leases.get(lease);
    if (owner !== undefined && owner !== this.#etcd.actor)
      this.#spoilt.push({ queue, process: owner, at: this.#world.now });
  }

  #tamper({ id }: Contender, how: Tampering['how']): void {
    if (!this.#tampered.has(id)) this.#tampered.set(id, { how, at: this.#world.now });
  }

  /** Whose mark stands there. */
  markAt(key: string): string | undefined {
    return this.#marks.get(key);
  }

  #in(queue: string): Contender[] {
    return [...this.contenders.values()].filter((contender) => contender.queue === queue);
  }

  #lookAtSemaphore(semaphore: string, revision: bigint): void {
    const permits = this.permits.get(semaphore);
    const queue = this.#in(semaphore);
    const slots = [...this.contenders.values()].filter(
      (contender) => contender.queue !== semaphore && semaphoreOf(contender.queue) === semaphore,
    );
    noteFirstOfMany(queue, slots, permits ?? 1, this.#world.now, revision);
    for (const slot of slots) noteHeads([slot], this.#world.now, revision);
    this.onSemaphore({ semaphore, permits, queue, slots, revision, actor: this.#etcd.actor });
  }

  #look(queue: string, revision: bigint): void {
    const semaphore = semaphoreOf(queue);
    if (semaphore !== undefined) {
      this.#lookAtSemaphore(semaphore, revision);
      return;
    }
    const contenders = this.#in(queue);
    noteHeads(contenders, this.#world.now, revision);
    if (queue.startsWith('election/')) this.leadersOf(queue).stands(contenders[0], revision, this.#world.now);
  }
}
