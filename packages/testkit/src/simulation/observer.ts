import type { WatchEvent } from '@lockkeeper/core';
import type { SimulatedEtcd } from './etcd.ts';
import type { World } from './world.ts';

/** A key of a queue as it stands in etcd. */
export interface Contender {
  readonly key: string;
  readonly name: string;
  readonly lease: bigint;
  readonly acquisition: string | undefined;
  readonly createRevision: bigint;
  modRevision: bigint;
  /** Since when it is the intact first of its queue; true time. */
  headSince: number | undefined;
}

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

const QUEUE = /^lockkeeper\/lock\/([^/]+)\//;

/**
 * Sees every change of etcd in the moment in which it happens, and keeps what the queues were and are. It
 * looks at the state machine itself, past all networks.
 */
export class Observer {
  /** By key: what stands in the queues now. */
  readonly contenders = new Map<string, Contender>();
  /** All keys of every kind that exist now. */
  readonly keys = new Set<string>();
  readonly leasesRevokedOutside = new Set<bigint>();
  onDataWrite: (write: DataWrite) => void = () => {};
  onRemoved: (contender: Contender, actor: string) => void = () => {};
  readonly #etcd: SimulatedEtcd;
  readonly #world: World;
  /** By `key@createRevision`. */
  readonly #created = new Map<string, Contender>();
  readonly #wasHead = new Set<string>();
  readonly #removals = new Map<string, string>();
  readonly #spoilt: { readonly name: string; readonly process: string; readonly at: number }[] = [];
  readonly #tampered = new Map<string, Tampering>();

  constructor(etcd: SimulatedEtcd, world: World) {
    this.#etcd = etcd;
    this.#world = world;
    etcd.watch(
      { key: '\0', rangeEnd: '\0', startRevision: 1n },
      { onEvents: (events) => this.#onEvents(events), onEnd: () => {} },
    );
  }

  /** Whether the key of exactly this grant is there, untouched. */
  isIntact(key: string, token: bigint): boolean {
    const contender = this.contenders.get(key);
    return contender?.createRevision === token && contender.modRevision === token;
  }

  /** The acquisition for which this key was created, `undefined` if it never was. */
  creatorOf(key: string, token: bigint): string | undefined {
    return this.#created.get(`${key}@${token}`)?.acquisition;
  }

  leaseOf(key: string, token: bigint): bigint {
    return this.#created.get(`${key}@${token}`)?.lease ?? 0n;
  }

  wasHead(key: string, token: bigint): boolean {
    return this.#wasHead.has(`${key}@${token}`);
  }

  /** On whose behalf the key went; `undefined`: it is there. */
  removalOf(key: string, token: bigint): string | undefined {
    return this.#removals.get(`${key}@${token}`);
  }

  /** What somebody who had no business there did to the key first. */
  tamperingWith(key: string, token: bigint): Tampering | undefined {
    return this.#tampered.get(`${key}@${token}`);
  }

  /** Whether a key of this process in that queue went, or was spoilt, without its doing. */
  wasRemovedFromOutside(name: string, process: string, since: number): boolean {
    return this.#spoilt.some(
      (spoilt) => spoilt.name === name && spoilt.process === process && spoilt.at >= since,
    );
  }

  wasRevokedOutside(process: string): boolean {
    for (const lease of this.leasesRevokedOutside) if (this.#etcd.leases.get(lease) === process) return true;
    return false;
  }

  #onEvents(events: readonly WatchEvent[]): void {
    const touched = new Set<string>();
    for (const event of events) {
      const key = event.type === 'put' ? event.kv.key : event.key;
      if (event.type === 'put') this.keys.add(key);
      else this.keys.delete(key);
      const name = QUEUE.exec(key)?.[1];
      if (name === undefined) this.#onOther(event);
      else {
        this.#onContender(event, key, name);
        touched.add(name);
      }
    }
    for (const name of touched) this.#findHead(name);
  }

  #onOther(event: WatchEvent): void {
    if (event.type !== 'put' || !event.kv.key.startsWith('data/')) return;
    const { key, modRevision, value } = event.kv;
    const text = new TextDecoder().decode(value);
    this.onDataWrite({ key, actor: this.#etcd.actor, revision: modRevision, value: text });
  }

  #onContender(event: WatchEvent, key: string, name: string): void {
    const { actor } = this.#etcd;
    const before = this.contenders.get(key);
    const id = `${key}@${before?.createRevision}`;
    const owner = before && this.#etcd.leases.get(before.lease);
    if (owner !== undefined && owner !== actor)
      this.#spoilt.push({ name, process: owner, at: this.#world.now });
    if (event.type === 'delete') {
      this.contenders.delete(key);
      if (before !== undefined) this.onRemoved(before, actor);
      this.#removals.set(id, actor);
      if (actor === 'outside') this.#tamper(id, 'deleted');
      return;
    }
    const { createRevision, modRevision, lease, value } = event.kv;
    if (before !== undefined) {
      before.modRevision = modRevision;
      before.headSince = undefined;
      if (actor === 'outside') this.#tamper(id, 'overwritten');
      return;
    }
    const acquisition = acquisitionIn(value);
    const contender = { key, name, lease, acquisition, createRevision, modRevision, headSince: undefined };
    this.#created.set(`${key}@${createRevision}`, contender);
    this.contenders.set(key, contender);
  }

  #tamper(id: string, how: Tampering['how']): void {
    if (!this.#tampered.has(id)) this.#tampered.set(id, { how, at: this.#world.now });
  }

  #findHead(name: string): void {
    let head: Contender | undefined;
    for (const contender of this.contenders.values()) {
      if (contender.name !== name) continue;
      if (head === undefined || contender.createRevision < head.createRevision) head = contender;
    }
    if (head === undefined || head.modRevision !== head.createRevision) return;
    head.headSince ??= this.#world.now;
    this.#wasHead.add(`${head.key}@${head.createRevision}`);
  }
}

function acquisitionIn(value: Uint8Array): string | undefined {
  try {
    const details: unknown = JSON.parse(new TextDecoder().decode(value));
    const acquisition = (details as { acquisition?: unknown } | null)?.acquisition;
    return typeof acquisition === 'string' ? acquisition : undefined;
  } catch {
    return undefined;
  }
}
