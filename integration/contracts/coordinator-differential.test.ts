import {
  type Compare,
  type CompareOperator,
  type Coordinator,
  etcdCoordinator,
  type KeySpan,
  LockkeeperError,
  type Operation,
  type RangeRequest,
  type Txn,
  type WatchEvent,
} from '@lockkeeper/core';
import { memoryCoordinator, VirtualClock } from '@lockkeeper/core/memory';
import { availableEtcdVersions, startEtcd } from '@lockkeeper/testkit';
import { describe, expect, test } from 'vitest';

// The same random requests to a fresh etcd and a fresh memory store: every reply, every refusal and the
// whole history must be equal, revisions included. A failure is replayed by its seed.

const SEEDS = [1, 2];
const REQUESTS = 250;
const KEYS = ['a', 'b', 'b/', 'b/1', 'b/2', 'c', 'é', '\uFF5E', '\u{1F512}'];
const LEASES = [1n, 2n, 3n];

type Request =
  | { readonly call: 'txn'; readonly txn: Txn }
  | { readonly call: 'range'; readonly range: RangeRequest }
  | { readonly call: 'grant' | 'renew' | 'revoke'; readonly lease: bigint };

describe.each(await availableEtcdVersions())('memory does as etcd %s does', (version) => {
  test.each(SEEDS)('seed %i', async (seed) => {
    await using server = await startEtcd({ version, own: true });
    await using etcd = etcdCoordinator({ hosts: server.endpoint });
    await using memory = memoryCoordinator({ clock: new VirtualClock() });
    const random = new RandomRequests(seed);
    const outcomes = { applied: 0, refused: 0 };

    for (let step = 1; step <= REQUESTS; step++) {
      const request = random.request();
      const expected = await answer(etcd, request);
      expect(await answer(memory, request), `seed ${seed}, step ${step}: ${show(request)}`).toEqual(expected);
      outcomes['code' in expected ? 'refused' : 'applied']++;
    }
    const { revision } = await etcd.range({ key: 'a' });
    const history = await replay(etcd, revision);
    expect(await replay(memory, revision)).toEqual(history);

    // So that agreement says something.
    expect(outcomes.refused).toBeGreaterThan(REQUESTS / 50);
    expect(outcomes.applied).toBeGreaterThan(REQUESTS / 2);
    expect(history.length).toBeGreaterThan(REQUESTS / 4);
  });
});

async function answer(coordinator: Coordinator, request: Request): Promise<object> {
  try {
    switch (request.call) {
      case 'txn':
        return plain(await coordinator.txn(request.txn));
      case 'range':
        return plain(await coordinator.range(request.range));
      case 'grant':
        return await coordinator.grant({ lease: request.lease, ttlMs: 3_600_000 });
      case 'renew':
        return await coordinator.renew(request.lease);
      case 'revoke':
        await coordinator.revoke(request.lease);
        return {};
    }
  } catch (error) {
    if (!(error instanceof LockkeeperError)) throw error;
    return { code: error.code, outcome: error.outcome };
  }
}

/** Every event up to the revision of the last one, which is put here. */
async function replay(coordinator: Coordinator, revision: bigint): Promise<object[]> {
  const events: WatchEvent[] = [];
  await coordinator.txn({ compare: [], success: [{ op: 'put', key: 'z', value: 'end' }], failure: [] });
  await new Promise<void>((resolve, reject) => {
    const watch = coordinator.watch(
      { key: 'a', rangeEnd: '\0', startRevision: 1n },
      {
        onEvents(batch) {
          events.push(...batch);
          const last = batch.at(-1);
          if (last?.type !== 'put' || last.kv.modRevision <= revision) return;
          watch.close();
          resolve();
        },
        onEnd: reject,
      },
    );
  });
  return events.map(plain);
}

/** Bytes as text, so that a Buffer is as good as any other Uint8Array. */
function plain(value: object): object {
  const bytesAsText = (_: string, part: unknown) => {
    if (typeof part === 'bigint') return `${part}`;
    if (part instanceof Uint8Array) return Buffer.from(part).toString();
    // A Buffer has been through its own toJSON by now.
    const { type, data } = (part ?? {}) as { type?: unknown; data?: unknown };
    return type === 'Buffer' && Array.isArray(data) ? Buffer.from(data).toString() : part;
  };
  return JSON.parse(JSON.stringify(value, bytesAsText)) as object;
}

function show(request: Request): string {
  return JSON.stringify(request, (_, part) => (typeof part === 'bigint' ? `${part}` : part));
}

class RandomRequests {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  request(): Request {
    const roll = this.#below(100);
    if (roll < 75) return { call: 'txn', txn: this.#txn(0) };
    if (roll < 85) return { call: 'range', range: this.#range() };
    return { call: roll < 94 ? 'grant' : roll < 96 ? 'renew' : 'revoke', lease: this.#pick(LEASES) };
  }

  #txn(depth: number): Txn {
    return {
      compare: this.#list(2, () => this.#compare()),
      success: this.#list(3, () => this.#operation(depth)),
      failure: this.#list(3, () => this.#operation(depth)),
    };
  }

  #operation(depth: number): Operation {
    const roll = this.#below(10);
    if (roll < 5) {
      const lease = this.#below(3) === 0 ? this.#pick(LEASES) : 0n;
      return { op: 'put', key: this.#pick(KEYS), value: this.#pick(['', 'x', 'y', '~é']), lease };
    }
    if (roll < 6) return { op: 'delete', ...this.#span() };
    if (roll < 8 || depth === 2) return { op: 'range', ...this.#range() };
    return { op: 'txn', ...this.#txn(depth + 1) };
  }

  #compare(): Compare {
    const span = this.#span();
    const is = this.#pick<CompareOperator>(['=', '=', '!=', '<', '>']);
    const target = this.#pick(['createRevision', 'modRevision', 'version', 'lease', 'value'] as const);
    if (target === 'value') return { ...span, target, is, to: this.#pick(['', 'x', 'y', '~é']) };
    return { ...span, target, is, to: BigInt(this.#pick([0, 0, 1, 2, this.#below(REQUESTS)])) };
  }

  #range(): RangeRequest {
    const sort = {
      by: this.#pick(['key', 'createRevision', 'modRevision'] as const),
      order: this.#pick(['ascend', 'descend'] as const),
    };
    return {
      ...this.#span(),
      ...(this.#below(2) === 0 ? { sort } : {}),
      ...(this.#below(3) === 0 ? { limit: this.#below(4) } : {}),
      ...(this.#below(3) === 0 ? { keysOnly: true } : {}),
      ...(this.#below(4) === 0 ? { maxCreateRevision: BigInt(1 + this.#below(REQUESTS)) } : {}),
    };
  }

  #span(): KeySpan {
    const key = this.#pick(KEYS);
    if (this.#below(2) === 0) return { key };
    return { key, rangeEnd: this.#below(6) === 0 ? '\0' : this.#pick(KEYS) };
  }

  #list<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.#below(most + 1) }, make);
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#below(from.length)] as T;
  }

  /** Mulberry32: enough chance for this, and the same on every machine. */
  #below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((((mixed ^ (mixed >>> 14)) >>> 0) * bound) / 2 ** 32) | 0;
  }
}
