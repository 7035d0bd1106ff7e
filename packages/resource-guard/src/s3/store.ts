// The four requests this guard makes, over whatever S3 client it was given. The client and its retries stay
// as they are: an answer that a retry may have coloured is passed on as doubtful.
import { GuardError } from '@lockkeeper/fencing';
import { describe, invalid } from '../options.ts';
import type { Budget } from './budget.ts';
import { certainlyRefused, statusOf } from './errors.ts';

/** An `S3Client` of `@aws-sdk/client-s3`, or what behaves like one. */
export interface S3Sender {
  send(command: never, options?: { readonly abortSignal?: AbortSignal }): Promise<unknown>;
}

/** `ifMatch: etag` replaces just that; `'absent'` creates; `undefined` is for the probe alone. */
export type PutCondition = { readonly ifMatch: string } | 'absent' | undefined;

/**
 * - `stored`: carried out;
 * - `refused`: the condition did not hold (412), or there was no object to match (404);
 * - `conflict`: 409, the store could not decide just then;
 * - `failed`: anything else.
 *
 * Unless `certain`, an earlier try may have been carried out, or still be.
 */
export type PutReply =
  | { readonly kind: 'stored'; readonly etag: string }
  | { readonly kind: 'refused' | 'conflict' | 'failed'; readonly certain: boolean; readonly error: unknown };

export interface Found {
  readonly bytes: Uint8Array;
  readonly etag: string;
}

interface Body {
  transformToByteArray(): Promise<Uint8Array>;
  destroy?(): void;
}

type Sdk = typeof import('@aws-sdk/client-s3');
type CommandName = 'GetObjectCommand' | 'PutObjectCommand' | 'DeleteObjectCommand';

export function checkSender(value: unknown): S3Sender {
  if (typeof value === 'object' && value !== null && 'send' in value && typeof value.send === 'function') {
    return value as S3Sender;
  }
  throw invalid('client', value, 'expected an S3Client of @aws-sdk/client-s3');
}

/** One bucket. */
export class ObjectStore {
  readonly client: S3Sender;
  readonly bucket: string;
  readonly #requestTimeoutMs: number;

  constructor(client: S3Sender, bucket: string, requestTimeoutMs: number) {
    this.client = client;
    this.bucket = bucket;
    this.#requestTimeoutMs = requestTimeoutMs;
  }

  /** `undefined` where there is no such object. Throws what the client threw, or the budget's reason. */
  async get(key: string, budget: Budget): Promise<Found | undefined> {
    try {
      return await this.#send('GetObjectCommand', { Key: key }, budget, readObject);
    } catch (error) {
      if (statusOf(error) === 404 && (error as Error).name !== 'NoSuchBucket') return undefined;
      throw error;
    }
  }

  /** Throws only where nothing was sent: the budget was over, or the client is not there. */
  async put(key: string, bytes: Uint8Array, condition: PutCondition, budget: Budget): Promise<PutReply> {
    budget.signal.throwIfAborted();
    const input = {
      Key: key,
      Body: bytes,
      ContentType: 'application/octet-stream',
      ...(condition === 'absent' ? { IfNoneMatch: '*' } : condition && { IfMatch: condition.ifMatch }),
    };
    try {
      const etag = await this.#send('PutObjectCommand', input, budget, (reply) => etagOf(reply));
      return { kind: 'stored', etag };
    } catch (error) {
      if (error instanceof GuardError) throw error;
      return { kind: kindOf(error), certain: certainlyRefused(error), error };
    }
  }

  async remove(key: string, budget: Budget): Promise<void> {
    await this.#send('DeleteObjectCommand', { Key: key }, budget, () => undefined);
  }

  async #send<T>(
    name: CommandName,
    input: Record<string, unknown>,
    budget: Budget,
    read: (reply: Record<string, unknown>, signal: AbortSignal) => T | Promise<T>,
  ): Promise<T> {
    const Command = (await loadSdk())[name] as unknown as new (input: object) => never;
    const command = new Command({ Bucket: this.bucket, ...input });
    return budget.request(this.#requestTimeoutMs, async (abortSignal) => {
      const reply = await this.client.send(command, { abortSignal });
      return read(reply as Record<string, unknown>, abortSignal);
    });
  }
}

async function readObject(reply: Record<string, unknown>, signal: AbortSignal): Promise<Found> {
  const body = reply['Body'] as Body;
  // The client's own abort ends with the headers.
  const stop = () => body.destroy?.();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    return { bytes: await body.transformToByteArray(), etag: etagOf(reply) };
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function etagOf(reply: Record<string, unknown>): string {
  const etag = reply['ETag'];
  if (typeof etag === 'string' && etag !== '') return etag;
  throw new TypeError(`the store answered without an ETag (${describe(etag)})`);
}

function kindOf(error: unknown): 'refused' | 'conflict' | 'failed' {
  const status = statusOf(error);
  if (status === 412 || (status === 404 && (error as Error).name !== 'NoSuchBucket')) return 'refused';
  return status === 409 ? 'conflict' : 'failed';
}

/** Whoever has a client has its package; only the names of its commands are needed, and only when used. */
async function loadSdk(): Promise<Sdk> {
  try {
    // biome-ignore lint/style/noRestrictedImports: the driver of this storage, in its own file and only when used.
    return await import('@aws-sdk/client-s3');
  } catch (cause) {
    throw new GuardError('unavailable', 'the S3 guard needs the package @aws-sdk/client-s3; install it', {
      cause,
    });
  }
}
