import {
  type ClientHttp2Session,
  connect,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { deferred } from './deferred.ts';
import { type Fault, faultOf } from './fault.ts';
import { joinCall } from './grpc-call.ts';
import { checkOneOf, invalid } from './options.ts';
import type { ProxyDirection } from './proxy-lane.ts';

export interface DropOptions {
  /** The path of the calls: `/etcdserverpb.Lease/LeaseKeepAlive`. */
  readonly method: string;
  /** Default `request`. */
  readonly direction?: ProxyDirection | undefined;
}

/** Messages that are lost until it is restored. */
export interface DropFault extends Fault {
  /** How many were lost so far. */
  readonly dropped: number;
}

const KEEP_ALIVE = '/etcdserverpb.Lease/LeaseKeepAlive';

/**
 * Starts a proxy on loopback that understands gRPC over HTTP/2 without TLS, so that it can lose messages of one
 * method while everything else on the same connection goes on: what a {@link TcpProxy} must not do, because
 * HTTP/2 does not survive the loss of bytes. Put a TcpProxy in front for faults of the connection itself.
 *
 * Each client's connection has one of its own to the server, and ends with it. Both sides' flow control and pings
 * are the proxy's own.
 * @param target `http://127.0.0.1:2379`
 * @throws {@link TestkitError} `invalid-option`
 */
export async function startGrpcProxy(target: string | URL): Promise<GrpcProxy> {
  const text = String(target);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:') throw invalid('target', text, 'http://…: TLS hides the messages');
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return new GrpcProxy(server, url);
}

/** A gRPC proxy that can lose the messages of single methods. */
export class GrpcProxy implements AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly #server: Http2Server;
  readonly #target: URL;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #drops = new Set<Drop>();
  #accepted = 0;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(server: Http2Server, target: URL) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#server = server;
    this.#target = target;
    server.on('session', (session) => this.#join(session));
  }

  /** How many connections were accepted since the start. */
  get accepted(): number {
    return this.#accepted;
  }

  /**
   * Loses every message of a method in one direction, of calls that are under way too, until restored. The calls
   * stay open; their end in that direction waits until then.
   */
  drop({ method, direction = 'request' }: DropOptions): DropFault {
    checkOneOf('direction', direction, ['request', 'reply']);
    if (!String(method).startsWith('/'))
      throw invalid('method', method, 'the path of its calls: /package.Service/Method');
    const drop: Drop = { method, direction, dropped: 0, over: deferred<void>() };
    this.#drops.add(drop);
    const { restore } = faultOf(() => {
      this.#drops.delete(drop);
      drop.over.resolve();
    });
    return {
      get dropped() {
        return drop.dropped;
      },
      restore,
      [Symbol.dispose]: restore,
    };
  }

  /** Loses every renewal of a lease of etcd on its way to the server, and nothing else. */
  dropKeepAlives(): DropFault {
    return this.drop({ method: KEEP_ALIVE });
  }

  /** Ends every connection and stops listening. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      this.#server.close(() => resolve());
      const drops = [...this.#drops];
      this.#drops.clear();
      for (const { over } of drops) over.resolve();
      for (const session of this.#sessions) session.destroy();
    });
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #join(near: ServerHttp2Session): void {
    this.#accepted++;
    this.#sessions.add(near);
    const far: ClientHttp2Session = connect(this.#target);
    // Either side's end, whatever it is, ends the other.
    for (const session of [near, far]) session.on('error', () => {});
    near.once('close', () => {
      this.#sessions.delete(near);
      far.destroy();
    });
    far.once('close', () => near.destroy());
    near.on('stream', (call, headers) => {
      const method = `${headers[':path']}`;
      joinCall(call, headers, far, (direction) => this.#dropOf(method, direction));
    });
  }

  #dropOf(method: string, direction: ProxyDirection): Drop | undefined {
    return [...this.#drops].find((drop) => drop.method === method && drop.direction === direction);
  }
}

interface Drop {
  readonly method: string;
  readonly direction: ProxyDirection;
  dropped: number;
  readonly over: { readonly promise: Promise<void>; resolve(): void };
}
