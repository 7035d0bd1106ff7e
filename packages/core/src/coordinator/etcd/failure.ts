import { status } from '@grpc/grpc-js';
import { LockkeeperError, type LockkeeperErrorCode } from '../../errors.ts';
import type { Settled } from './pending-calls.ts';
import type { Rpc, RpcStatus } from './rpc.ts';

/**
 * Why one attempt at one member failed.
 *
 * | kind | meaning |
 * |---|---|
 * | `unsent` | nothing left this process, or this member refused before it looked: any member may be asked |
 * | `unsure` | what was asked may have been done, or may be done later |
 * | `stale-login` | etcd did nothing, since our token is no longer good |
 * | `refused` | etcd did nothing, and no member would |
 */
export interface Failure {
  readonly kind: 'unsent' | 'unsure' | 'stale-login' | 'refused';
  readonly code: LockkeeperErrorCode;
  /** Which member, doing what, and what it said. */
  readonly text: string;
  readonly cause: unknown;
  /** The server's words alone, if it said any. */
  readonly said?: string | undefined;
}

type Verdict = Pick<Failure, 'kind' | 'code'>;

export const AUTHENTICATION_IS_OFF = 'etcdserver: authentication is not enabled';

const refused = (code: LockkeeperErrorCode): Verdict => ({ kind: 'refused', code });
const unsure = (code: LockkeeperErrorCode): Verdict => ({ kind: 'unsure', code });

/**
 * What etcd's texts mean. They are the only thing that tells its refusals apart (its own client goes by
 * them too); 3.4 and 3.5 agree in them.
 */
const ETCD_SAYS: ReadonlyMap<string, Verdict> = new Map([
  ['etcdserver: key is not provided', refused('invalid-request')],
  ['etcdserver: key not found', refused('invalid-request')],
  ['etcdserver: duplicate key given in txn request', refused('invalid-request')],
  ['etcdserver: too many operations in txn request', refused('limit-exceeded')],
  ['etcdserver: request is too large', refused('limit-exceeded')],
  ['etcdserver: too many requests', refused('limit-exceeded')],
  ['etcdserver: too large lease TTL', refused('limit-exceeded')],
  ['etcdserver: requested lease not found', refused('lease-not-found')],
  ['etcdserver: lease already exists', refused('lease-exists')],
  ['etcdserver: mvcc: required revision has been compacted', refused('compacted')],
  ['etcdserver: permission denied', refused('permission-denied')],
  ['etcdserver: authentication failed, invalid user ID or password', refused('unauthenticated')],
  // Said to a request without a token: etcd takes the name in the client's certificate for the user's.
  ['etcdserver: user name not found', refused('unauthenticated')],
  // Said to a request without a token: authentication may have been switched on since we asked for one.
  ['etcdserver: user name is empty', { kind: 'stale-login', code: 'unauthenticated' }],
  ['etcdserver: invalid auth token', { kind: 'stale-login', code: 'unauthenticated' }],
  ['etcdserver: revision of auth store is old', { kind: 'stale-login', code: 'unauthenticated' }],
  ['etcdserver: rpc not supported for learner', { kind: 'unsent', code: 'unreachable' }],
  // The alarm is raised when a write is applied, and members may differ in it: the write may be there.
  ['etcdserver: mvcc: database space exceeded', unsure('storage-full')],
]);

/** Before etcd decodes a request; the same words without "grpc: " are ours, about a reply that is too long. */
const TOO_LONG_FOR_SERVER = 'grpc: received message larger than max';

export function verdictOn(said: RpcStatus): Verdict {
  const known = ETCD_SAYS.get(said.details);
  if (known !== undefined) return known;
  switch (said.code) {
    case status.PERMISSION_DENIED:
      return refused('permission-denied');
    case status.UNAUTHENTICATED:
      return refused('unauthenticated');
    case status.RESOURCE_EXHAUSTED:
      if (said.details.startsWith(TOO_LONG_FOR_SERVER)) return refused('limit-exceeded');
      return unsure('limit-exceeded');
    case status.UNIMPLEMENTED:
    case status.INVALID_ARGUMENT:
    case status.OUT_OF_RANGE:
    case status.DATA_LOSS:
      return unsure('unexpected-reply');
    default:
      return unsure('unreachable');
  }
}

/** For the reason of a canceled watch: a bare text, in which Go may have packed the code as well. */
export function verdictOnReason(reason: string): Verdict {
  return ETCD_SAYS.get(reason.replace(/^rpc error: code = \w+ desc = /, '')) ?? unsure('unexpected-reply');
}

export function failureOf(
  what: string,
  rpc: Rpc,
  settled: Exclude<Settled<unknown>, { how: 'done' }>,
  limitMs: number,
): Failure {
  if (settled.how === 'out-of-time') {
    const kind = rpc.started ? 'unsure' : 'unsent';
    return {
      kind,
      code: 'unreachable',
      text: `${what}: no answer within ${Math.round(limitMs)} ms`,
      cause: undefined,
    };
  }
  const { error: cause } = settled;
  const said = rpc.status?.details ?? (cause instanceof Error ? cause.message : String(cause));
  const text = `${what}: ${tidy(said)}`;
  if (!rpc.started) return { kind: 'unsent', code: 'unreachable', text, cause };
  if (rpc.status === undefined) return { kind: 'unsure', code: 'unreachable', text, cause };
  return { ...verdictOn(rpc.status), text, cause, said: rpc.status.details };
}

/** On one line, without the empty note that gRPC appends. */
function tidy(said: string): string {
  return said
    .replace(/Resolution note:\s*$/, '')
    .replace(/\s+/g, ' ')
    .trim();
}

export function toError(failure: Failure, text = failure.text): LockkeeperError {
  return new LockkeeperError(failure.code, text, {
    cause: failure.cause,
    outcome: failure.kind === 'unsure' ? 'unknown' : 'rejected',
  });
}
