import { randomBytes } from 'node:crypto';
import type { CallOptions, Coordinator } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';

const WELL_FORMED = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Reads which revision history this etcd is in, and names the history where nobody has yet. The name is
 * always drawn afresh and only ever created: etcd's cluster id survives a wiped data directory although its
 * revisions start again at 1, so only a value inside the data can tell. Repeating it is harmless.
 *
 * Where there is a name nothing is written, so a full or read-only etcd can still be read.
 */
export async function readLineage(coordinator: Coordinator, key: string, call: CallOptions): Promise<string> {
  const { kvs } = await coordinator.range({ key }, call);
  return kvs[0] === undefined ? nameHistory(coordinator, key, call) : parse(key, kvs[0].value);
}

async function nameHistory(coordinator: Coordinator, key: string, call: CallOptions): Promise<string> {
  const fresh = randomBytes(12).toString('base64url');
  const reply = await coordinator.txn(
    {
      compare: [{ key, target: 'createRevision', is: '=', to: 0n }],
      success: [{ op: 'put', key, value: fresh }],
      failure: [{ op: 'range', key }],
    },
    call,
  );
  if (reply.succeeded) return fresh;
  // Somebody else was quicker.
  const [found] = reply.results;
  return parse(key, found?.op === 'range' ? found.kvs[0]?.value : undefined);
}

function parse(key: string, value: Uint8Array | undefined): string {
  const lineage = value === undefined ? '' : new TextDecoder().decode(value);
  if (WELL_FORMED.test(lineage)) return lineage;
  const shown = JSON.stringify(lineage.slice(0, 100));
  throw new LockkeeperError('unexpected-reply', `the lineage key ${key} holds ${shown}`);
}
