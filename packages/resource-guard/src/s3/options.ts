// What the guard on an object store is told, checked before anything is sent.
import { checkFlag, checkMs, checkResource, invalid } from '../options.ts';

export interface S3GuardOptions {
  /** One bucket for all holders, not a replica of it. */
  readonly bucket: string;
  /** The key of the one object that holds the guard's state and the value. Only the guard may write it. */
  readonly key: string;
  /** The name of what is guarded, at most 1,024 bytes of UTF-8. Default `s3://<bucket>/<key>`. */
  readonly resource?: string | undefined;
  /** Reject tokens that never claimed with `unclaimed`. Default `false`. */
  readonly requireClaim?: boolean | undefined;
  /**
   * What a missing object means. `refuse`: `not-migrated`, since it may have been lost together with the
   * tokens it knew; `create()` makes it. `create`: a guard that no token has touched, so a lost object lets
   * the next token in, whichever that is. Default `refuse`.
   */
  readonly missing?: 'refuse' | 'create' | undefined;
  /**
   * Try, before the first verb on this client and bucket, whether the store enforces conditions. It puts,
   * reads and deletes one object at `<key>.probe-<uuid>`. Default `true`.
   */
  readonly probe?: boolean | undefined;
  /** How long a verb may take, the effect of a run not counted. Default 20,000 ms. */
  readonly timeoutMs?: number | undefined;
  /** How long one request may take, the client's own retries included. Default 5,000 ms. */
  readonly requestTimeoutMs?: number | undefined;
}

const LONGEST_KEY_BYTES = 1024;
/** The probe's key is longer than the guard's. */
const LONGEST_SUFFIX_BYTES = '.probe-'.length + 36;

export function checkOptions(options: S3GuardOptions) {
  const bucket: unknown = options?.bucket;
  if (typeof bucket !== 'string' || bucket === '')
    throw invalid('bucket', bucket, 'expected a non-empty string');
  const key = checkKey(options.key);
  const missing = options.missing ?? 'refuse';
  if (missing !== 'refuse' && missing !== 'create') {
    throw invalid('missing', missing, 'expected "refuse" or "create"');
  }
  return {
    bucket,
    key,
    resource: options.resource === undefined ? `s3://${bucket}/${key}` : checkResource(options.resource),
    requireClaim: checkFlag('requireClaim', options.requireClaim, false),
    createsMissing: missing === 'create',
    probes: checkFlag('probe', options.probe, true),
    timeoutMs: checkMs('timeoutMs', options.timeoutMs, 20_000),
    requestTimeoutMs: checkMs('requestTimeoutMs', options.requestTimeoutMs, 5_000),
  };
}

function checkKey(value: unknown): string {
  if (typeof value !== 'string' || value === '') throw invalid('key', value, 'expected a non-empty string');
  if (/\0|\p{Surrogate}/u.test(value)) throw invalid('key', value, 'expected well-formed text without NUL');
  const longest = LONGEST_KEY_BYTES - LONGEST_SUFFIX_BYTES;
  if (Buffer.byteLength(value) > longest)
    throw invalid('key', value, `expected at most ${longest} bytes of UTF-8`);
  return value;
}
