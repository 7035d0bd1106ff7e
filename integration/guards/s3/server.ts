// A small S3 that is as strict as the real one about conditions, for one bucket: path-style GET, HEAD, PUT and
// DELETE of whole objects. Checking a condition and storing is one step. Signatures must be there, unchecked.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Objects, type StoredObject } from './objects.ts';
import { conflict, noSuchKey, preconditionFailed, S3Refusal, slowDown } from './refusal.ts';
import { readBody } from './request-body.ts';

/** Switches that stay as they are set, and counts of how many PUTs are still to suffer something. */
export interface S3Faults {
  /** Answers 200 whatever the conditions say, as lax emulators do. */
  ignoreConditions: boolean;
  /** GET answers with the object before the latest, as caches and lagging replicas do. */
  staleReads: boolean;
  /** PUTs under a condition that are answered with 409, not carried out. */
  conflicts: number;
  /** PUTs that are carried out and whose connection then ends without a reply. */
  lostReplies: number;
  /** PUTs that are carried out and answered with 503, as a proxy does that lost the reply itself. */
  proxyErrors: number;
  /** PUTs that are carried out and answered with 200 and an error in the body. */
  errorsIn200: number;
  /** PUTs whose connection ends before anything is done. */
  lostRequests: number;
  /** PUTs that are answered with 503, not carried out. */
  slowDowns: number;
}

const NO_FAULTS: S3Faults = {
  ignoreConditions: false,
  staleReads: false,
  conflicts: 0,
  lostReplies: 0,
  proxyErrors: 0,
  errorsIn200: 0,
  lostRequests: 0,
  slowDowns: 0,
};

export interface SeenRequest {
  readonly method: string;
  readonly key: string;
  /** 0 where the connection was ended instead. */
  readonly status: number;
}

export interface StrictS3Options {
  readonly bucket?: string | undefined;
  /** Where the objects survive a restart. Default: in memory only. */
  readonly folder?: string | undefined;
}

export async function startStrictS3(options: StrictS3Options = {}): Promise<StrictS3> {
  const server = new StrictS3(options);
  await server.start();
  return server;
}

export class StrictS3 implements AsyncDisposable {
  readonly bucket: string;
  readonly objects: Objects;
  readonly faults: S3Faults = { ...NO_FAULTS };
  /** Every request that was answered, in order. */
  readonly seen: SeenRequest[] = [];
  readonly #previous = new Map<string, StoredObject>();
  #server: Server | undefined;
  #port = 0;
  #beforePut: (() => Promise<void>) | undefined;

  constructor({ bucket = 'bucket', folder }: StrictS3Options) {
    this.bucket = bucket;
    this.objects = new Objects(folder);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#serve(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  /** With what is in the folder, at the same address. */
  async restart(): Promise<void> {
    await this.stop();
    this.objects.load();
    await this.start();
  }

  heal(): void {
    Object.assign(this.faults, NO_FAULTS);
  }

  /** The next PUT waits, its condition not yet looked at, until `letGo`. */
  holdPut(): { readonly reached: Promise<void>; letGo(): Promise<void> } {
    let letGo: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const reached = new Promise<void>((reach) => {
      this.#beforePut = async () => {
        this.#beforePut = undefined;
        reach();
        await opened;
      };
    });
    return { reached, letGo: async () => letGo() };
  }

  /** The object's bytes, past every fault. */
  peek(key: string): Buffer | undefined {
    return this.objects.get(`${this.bucket}/${key}`)?.bytes;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    const path = decodeURIComponent(new URL(url, this.url).pathname.slice(1));
    const key = path.slice(this.bucket.length + 1);
    try {
      await this.#answer(request, response, method, path);
    } catch (error) {
      if (!(error instanceof S3Refusal)) {
        response.destroy();
        return;
      }
      response.writeHead(error.status, { 'content-type': 'application/xml' });
      response.end(method === 'HEAD' ? undefined : error.xml);
    }
    this.seen.push({ method, key, status: response.headersSent ? response.statusCode : 0 });
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    method: string,
    path: string,
  ): Promise<void> {
    const body = await readBody(request);
    if (!request.headers.authorization?.startsWith('AWS4-HMAC-SHA256 ')) {
      throw new S3Refusal(403, 'AccessDenied', 'Access Denied');
    }
    if (!path.startsWith(`${this.bucket}/`)) {
      throw new S3Refusal(404, 'NoSuchBucket', 'The specified bucket does not exist');
    }
    switch (method) {
      case 'GET':
      case 'HEAD':
        return this.#get(request, response, path);
      case 'PUT':
        await this.#beforePut?.();
        return this.#put(request, response, path, body);
      case 'DELETE':
        if (!this.faults.ignoreConditions) checkMatch(request, this.objects.get(path));
        this.objects.delete(path);
        response.writeHead(204).end();
        return;
      default:
        throw new S3Refusal(
          405,
          'MethodNotAllowed',
          'The specified method is not allowed against this resource.',
        );
    }
  }

  #get(request: IncomingMessage, response: ServerResponse, path: string): void {
    const stale = this.faults.staleReads ? this.#previous.get(path) : undefined;
    const object = stale ?? this.objects.get(path);
    if (object === undefined) throw noSuchKey();
    checkMatch(request, object);
    const headers = { etag: object.etag, 'last-modified': object.modified.toUTCString() };
    if (request.headers['if-none-match'] === object.etag) {
      response.writeHead(304, headers).end();
      return;
    }
    response.writeHead(200, {
      ...headers,
      'content-type': object.contentType,
      'content-length': object.bytes.length,
    });
    response.end(request.method === 'HEAD' ? undefined : object.bytes);
  }

  #put(request: IncomingMessage, response: ServerResponse, path: string, body: Buffer): void {
    const { faults } = this;
    const before = this.objects.get(path);
    const conditional = request.headers['if-match'] ?? request.headers['if-none-match'];
    if (take(faults, 'lostRequests')) {
      response.destroy();
      return;
    }
    if (take(faults, 'slowDowns')) throw slowDown();
    if (conditional !== undefined && take(faults, 'conflicts')) throw conflict();
    if (!faults.ignoreConditions) {
      checkAbsent(request, before);
      checkMatch(request, before);
    }
    if (before !== undefined) this.#previous.set(path, before);
    const object = this.objects.put(path, body, request.headers['content-type'] ?? 'binary/octet-stream');
    if (take(faults, 'lostReplies')) response.destroy();
    else if (take(faults, 'proxyErrors')) response.writeHead(503).end('upstream reset before headers');
    else if (take(faults, 'errorsIn200')) {
      response.writeHead(200, { 'content-type': 'application/xml' });
      response.end(new S3Refusal(200, 'InternalError', 'We encountered an internal error.').xml);
    } else response.writeHead(200, { etag: object.etag }).end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

type Counted = 'conflicts' | 'lostReplies' | 'proxyErrors' | 'errorsIn200' | 'lostRequests' | 'slowDowns';

function take(faults: S3Faults, fault: Counted): boolean {
  if (faults[fault] === 0) return false;
  faults[fault] -= 1;
  return true;
}

/** S3 takes nothing but `*` here for a PUT. */
function checkAbsent(request: IncomingMessage, object: StoredObject | undefined): void {
  const condition = request.headers['if-none-match'];
  if (condition === undefined) return;
  if (condition !== '*') {
    throw new S3Refusal(
      501,
      'NotImplemented',
      'A header you provided implies functionality that is not implemented',
    );
  }
  if (object !== undefined) throw preconditionFailed();
}

function checkMatch(request: IncomingMessage, object: StoredObject | undefined): void {
  const condition = request.headers['if-match'];
  if (condition === undefined) return;
  if (object === undefined) throw noSuchKey();
  if (condition !== '*' && condition !== object.etag && `"${condition}"` !== object.etag)
    throw preconditionFailed();
}
