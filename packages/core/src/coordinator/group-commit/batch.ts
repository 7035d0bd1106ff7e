import type { OperationResult, Txn, TxnReply } from '../coordinator.ts';
import { type Footprint, Ground } from './footprint.ts';

/** etcd's default `--max-txn-ops`: the longest list of a transaction and of those nested in it, added up. */
const MAX_OPERATIONS = 128;
/** More would make other clients wait: batches of 500 raised a neighbour's p99 from 12 to 22 ms. */
export const MOST_MEMBERS = 120;
/** Of `Footprint.bytes`, so a third of etcd's default `--max-request-bytes`, 1.5 MiB. */
const MAX_BYTES = 512 * 1024;

/** What a batch needs to know of a member. */
export interface Batchable {
  readonly txn: Txn;
  readonly footprint: Footprint;
}

/**
 * Transactions that may leave as one. All comparisons of a batch see the state before it, and all its writes share
 * one revision: so no member may write what another one touches.
 */
export class Batch<Member extends Batchable> {
  readonly members: Member[] = [];
  readonly #most: number;
  #ground: Ground | undefined;
  #depth = 0;
  #bytes = 0;

  /** @param most - members. */
  constructor(most: number) {
    this.#most = most;
  }

  get isFull(): boolean {
    return this.members.length >= this.#most || this.members[0]?.footprint.isPlain === false;
  }

  /** The first one always fits. */
  fits({ depth, bytes, isPlain }: Footprint): boolean {
    if (this.members.length === 0) return true;
    return (
      isPlain &&
      !this.isFull &&
      this.members.length + 1 + Math.max(this.#depth, depth) <= MAX_OPERATIONS &&
      this.#bytes + bytes <= MAX_BYTES
    );
  }

  conflictsWith(footprint: Footprint): boolean {
    if (this.#ground === undefined) {
      // One that stays alone needs none.
      this.#ground = new Ground();
      for (const member of this.members) this.#ground.add(member.footprint);
    }
    return this.#ground.conflictsWith(footprint);
  }

  take(member: Member): void {
    const { footprint } = member;
    this.members.push(member);
    this.#depth = Math.max(this.#depth, footprint.depth);
    this.#bytes += footprint.bytes;
    this.#ground?.add(footprint);
  }
}

/** All of them, as one transaction that always succeeds. */
export function joined(members: readonly Batchable[]): Txn {
  const success = members.map(({ txn: { compare, success, failure } }) => {
    return { op: 'txn' as const, compare, success, failure };
  });
  return { compare: [], success, failure: [] };
}

/**
 * What the reply to a batch says of one member. The revision is that of the whole: the headers of nested replies
 * carry none.
 */
export function replyOf(reply: TxnReply, member: number): TxnReply | undefined {
  const result: OperationResult | undefined = reply.results[member];
  if (result?.op !== 'txn') return undefined;
  return { succeeded: result.succeeded, results: result.results, revision: reply.revision };
}
