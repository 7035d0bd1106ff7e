import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TestkitError } from './errors.ts';
import { ctlOf } from './etcd-ctl.ts';
import type { EtcdPrograms } from './find-server.ts';
import { postJson } from './get-json.ts';

/** A disk that is full, as far as etcd is concerned. */
export interface SpaceAlarm extends AsyncDisposable {
  /** There is room again: disarms the alarm. Idempotent. */
  clear(): Promise<void>;
}

/**
 * What can be done to the data of an etcd while it serves. These speak to etcd as operators do, so they need a
 * server on which authentication is off; they reject with {@link TestkitError} `command-failed`.
 */
export interface EtcdStore {
  /**
   * Forgets the history before a revision, the newest one by default: a watch from before it ends as compacted.
   * @returns the revision.
   */
  compact(revision?: bigint): Promise<bigint>;
  /** Compacts, gives back the space of what was deleted, on each member, and lifts all space alarms. */
  reclaimSpace(): Promise<void>;
  /**
   * Raises the alarm that etcd raises when its quota (`--quota-backend-bytes`) is used up: whatever needs room is
   * refused with `NOSPACE`, by every member; reads, deletes and renewals go on.
   */
  raiseSpaceAlarm(): Promise<SpaceAlarm>;
  /**
   * Saves all keys and leases with `etcdctl snapshot save`.
   * @param file default: in a folder that goes with the server. @returns its path.
   */
  saveSnapshot(file?: string): Promise<string>;
}

export interface RestoreSnapshotOptions {
  /**
   * How far the revisions go on above the snapshot's, with all history before that compacted, so that nobody takes
   * a new revision for an old one. Wants an etcdutl that has it; with 3.4 comes none. Default: they go on where
   * the snapshot was taken, and are issued a second time.
   */
  readonly bumpRevision?: number | undefined;
}

interface Status {
  readonly header: { readonly revision: string; readonly member_id: string };
}

/** @param endpoints of each member. @param folder where snapshots go. */
export function storeOf(
  endpoints: readonly string[],
  folder: string,
  etcdctl: string | undefined,
): EtcdStore {
  const [first = ''] = endpoints;
  let saved = 0;
  const ask = async <T>(endpoint: string, verb: string, request: object): Promise<T> => {
    try {
      return await postJson<T>(`${endpoint}/v3/${verb}`, request, 30_000);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new TestkitError('command-failed', `etcd at ${endpoint}: ${verb} failed: ${why}`, { cause });
    }
  };
  const status = (endpoint = first) => ask<Status>(endpoint, 'maintenance/status', {});
  const alarm = (action: 'ACTIVATE' | 'DEACTIVATE', memberID: string) =>
    ask(first, 'maintenance/alarm', { action, memberID, alarm: 'NOSPACE' });
  const compact = async (revision?: bigint) => {
    const chosen = revision ?? BigInt((await status()).header.revision);
    await ask(first, 'kv/compaction', { revision: `${chosen}`, physical: true });
    return chosen;
  };
  const clearAlarms = async () => {
    for (const endpoint of endpoints) await alarm('DEACTIVATE', (await status(endpoint)).header.member_id);
  };
  return {
    compact,
    reclaimSpace: async () => {
      await compact();
      for (const endpoint of endpoints) await ask(endpoint, 'maintenance/defragment', {});
      await clearAlarms();
    },
    raiseSpaceAlarm: async () => {
      await alarm('ACTIVATE', (await status()).header.member_id);
      let cleared: Promise<void> | undefined;
      const clear = () => {
        cleared ??= clearAlarms();
        return cleared;
      };
      return { clear, [Symbol.asyncDispose]: clear };
    },
    saveSnapshot: async (file = join(folder, `snapshot-${++saved}`)) => {
      await ctlOf(etcdctl, first).ctl(['snapshot', 'save', file], { timeoutMs: 60_000 });
      return file;
    },
  };
}

/** One member's place in the cluster that a snapshot is restored to. */
export interface RestoredMember {
  readonly name: string;
  readonly dataDir: string;
  readonly advertisePeerUrl: string;
  readonly initialCluster: string;
  readonly clusterToken: string;
}

/** Makes a member's data, which must not exist yet, from a snapshot. */
export async function restoreData(
  { etcdutl, etcdctl, version }: EtcdPrograms,
  file: string,
  member: RestoredMember,
  { bumpRevision }: RestoreSnapshotOptions,
): Promise<void> {
  const program = etcdutl ?? etcdctl;
  if (program === undefined || (bumpRevision !== undefined && etcdutl === undefined)) {
    const wanted = bumpRevision === undefined ? 'etcdutl or etcdctl' : 'etcdutl, which bumpRevision needs,';
    throw new TestkitError('no-server', `no ${wanted} beside etcd ${version} in reach`);
  }
  const args = [
    ...['snapshot', 'restore', file, '--data-dir', member.dataDir, '--name', member.name],
    ...['--initial-advertise-peer-urls', member.advertisePeerUrl, '--initial-cluster', member.initialCluster],
    ...['--initial-cluster-token', member.clusterToken],
    ...(bumpRevision === undefined ? [] : ['--bump-revision', `${bumpRevision}`, '--mark-compacted']),
  ];
  try {
    await promisify(execFile)(program, args, { timeout: 60_000, env: { ...process.env, ETCDCTL_API: '3' } });
  } catch (cause) {
    const { stderr = '', message } = cause as Error & { stderr?: string };
    throw new TestkitError('command-failed', `${program} ${args.join(' ')} failed: ${stderr || message}`, {
      cause,
    });
  }
}
