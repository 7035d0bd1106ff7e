import { LockkeeperError } from '@lockkeeper/core';
import type { SimulatedClient } from './client.ts';
import type { Surroundings } from './connection.ts';
import type { SimulatedEtcd } from './etcd.ts';
import type { Observer } from './observer.ts';
import type { Fault } from './plan.ts';
import { strangersKey } from './queues.ts';
import type { SimulatedStorage } from './storage.ts';

/** Whom faults befall. */
export interface Stage {
  readonly around: Surroundings;
  readonly clients: ReadonlyMap<string, SimulatedClient>;
  readonly observer: Observer;
  readonly storage: SimulatedStorage;
  readonly faultsUntilMs: number;
}

let strangers = 0n;

/** Lets one fault happen, now. None of them lasts longer than the faults do. */
export function befall(fault: Fault, stage: Stage): void {
  const { around, storage } = stage;
  const { etcd, network, trace } = around;
  const lasts = (ms: number) => Math.max(0, Math.min(ms, stage.faultsUntilMs - fault.at));
  const client = 'client' in fault ? stage.clients.get(fault.client) : undefined;
  trace?.add('fault', describe(fault));
  switch (fault.kind) {
    case 'stop':
    case 'suspend':
      if (client !== undefined) stopFor(client, lasts(fault.ms), fault.kind === 'suspend', around);
      break;
    case 'cut off':
      network.cut(fault.client, lasts(fault.ms));
      break;
    case 'kill':
      client?.process.kill();
      break;
    case 'close':
      client?.process.deliver(() => void client.reopen());
      break;
    case 'break watches':
      client?.breakWatches();
      break;
    case 'step wall time':
      client?.process.stepWallTime(fault.ms);
      break;
    case 'stop etcd':
      etcd.stop(lasts(fault.ms));
      break;
    case 'restart etcd':
      etcd.restart(lasts(fault.ms));
      break;
    case 'lose leader':
      etcd.loseLeader(lasts(fault.ms));
      break;
    case 'stop storage':
      storage.stop(lasts(fault.ms));
      break;
    case 'compact':
      if (etcd.isServing) etcd.compact(fault.back);
      break;
    default:
      if (etcd.isServing) interfere(fault, stage);
  }
}

function stopFor({ process }: SimulatedClient, ms: number, suspend: boolean, { world }: Surroundings): void {
  process.stop({ suspend });
  world.after(ms, () => process.resume({ suspend }));
}

/** Somebody who has no business there, or another program, changes etcd. */
function interfere(fault: Fault, { around, observer }: Stage): void {
  const { etcd, world } = around;
  switch (fault.kind) {
    case 'delete key':
    case 'overwrite key': {
      const key = keyAt(observer, fault.queue, fault.place);
      if (key === undefined) return;
      const { kind } = fault;
      const operation =
        kind === 'delete key'
          ? ({ op: 'delete', key } as const)
          : ({ op: 'put', key, value: 'mine!' } as const);
      etcd.outside('outside', (store) => store.txn({ compare: [], success: [operation], failure: [] }));
      return;
    }
    case 'revoke': {
      const used = new Set([...observer.contenders.values()].map(({ lease }) => lease));
      const all = fault.isIdle ? [...etcd.leases.keys()].filter((lease) => !used.has(lease)) : [...used];
      const lease = all.find((each) => etcd.leases.get(each) === fault.client && etcd.isAlive(each));
      if (lease === undefined) return;
      revokeIfThere(lease, etcd, observer);
      return;
    }
    case 'revoke next lease':
      etcd.onNextLease(fault.client, (lease) => revokeIfThere(lease, etcd, observer));
      return;
    case 'stranger queues': {
      strangers += 1n;
      const lease = 2n ** 62n + strangers;
      const key = strangersKey(fault.queue, lease);
      etcd.outside('stranger', (store) => {
        etcd.grantOutside(lease, 3_600_000);
        store.txn({ compare: [], success: [{ op: 'put', key, value: '', lease }], failure: [] });
      });
      world.after(fault.ms, () => etcd.revokeOutside('stranger', lease));
      return;
    }
  }
}

/** It may be gone already: due, or its only key overwritten since. */
function revokeIfThere(lease: bigint, etcd: SimulatedEtcd, observer: Observer): void {
  try {
    etcd.revokeOutside('outside', lease);
    observer.leasesRevokedOutside.add(lease);
  } catch (error) {
    if (!(error instanceof LockkeeperError && error.code === 'lease-not-found')) throw error;
  }
}

/** 0: the first of the queue, and so on. */
function keyAt(observer: Observer, queue: string, place: number): string | undefined {
  return [...observer.contenders.values()].filter((contender) => contender.queue === queue)[place]?.key;
}

function describe(fault: Fault): string {
  const parts: string[] = [fault.kind];
  if ('client' in fault) parts.push(fault.client);
  if ('queue' in fault) parts.push(fault.queue);
  if ('ms' in fault) parts.push(`${Math.round(fault.ms)} ms`);
  return parts.join(' ');
}
