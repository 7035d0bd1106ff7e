import { createServer, type Server } from 'node:net';
import type { ChunkMatcher } from './chunk-matchers.ts';
import { deferred, handled } from './deferred.ts';
import { TestkitError } from './errors.ts';
import type { Fault } from './fault.ts';
import { checkFunction, checkOneOf, invalid } from './options.ts';
import { connectThrough, type ProxyConnection, type ProxyRule } from './proxy-connection.ts';
import type { ProxyDirection } from './proxy-lane.ts';
import { readTarget, type TcpTarget, urlOf } from './tcp-target.ts';

export interface HoldOptions {
  readonly direction: ProxyDirection;
  /** Which chunk to hold. Default: the next one. */
  readonly match?: ChunkMatcher | undefined;
}

/** One chunk that is, or is going to be, held back. */
export interface HeldChunk extends Disposable {
  /**
   * Resolves with its bytes when it is being held. Rejects with {@link TestkitError} `not-running` when it
   * was released, or the proxy closed, before anything matched.
   */
  readonly held: Promise<Buffer>;
  /**
   * Lets it through, and all that waited behind it. Resolves with whether the kernel took it for the
   * receiver: `false` where the connection to the receiver was cut meanwhile, or nothing was held.
   */
  release(): Promise<boolean>;
}

export interface LostReplyOptions {
  /** Which request. Default: the next one. */
  readonly match?: ChunkMatcher | undefined;
  /** Which chunk counts as its reply, where the protocol also sends others (HTTP/2 does). Default: any. */
  readonly reply?: ChunkMatcher | undefined;
}

/** A request whose reply never arrives. */
export interface LostReply extends Disposable {
  /**
   * Resolves with the reply's bytes when they came from the server and were lost, so that the request
   * certainly was carried out. Rejects as {@link HeldChunk.held} does.
   */
  readonly lost: Promise<Buffer>;
  /** Ends it. A connection that lost bytes cannot be continued, so it is reset. */
  restore(): void;
}

export interface CutOptions {
  /** With an RST rather than a FIN. Default `false`. */
  readonly rst?: boolean | undefined;
  /**
   * `client`: only towards the client; what it had sent still reaches the server, held back or not. `both`:
   * what has not been passed on yet is lost. Default `both`.
   */
  readonly side?: 'client' | 'both' | undefined;
}

const DIRECTIONS: readonly ProxyDirection[] = ['request', 'reply'];

/**
 * Starts a TCP proxy on loopback in front of `target`, an address or a URL. Without a fault it passes bytes
 * on as they come, each direction by itself, half-closed connections included.
 * @throws {@link TestkitError} `invalid-option`; `start-failed` where the port is taken.
 */
export async function startTcpProxy(
  target: TcpTarget | string | URL,
  options: { readonly port?: number | undefined } = {},
): Promise<TcpProxy> {
  const { address, template } = readTarget(target);
  const { port = 0 } = options;
  if (!(Number.isInteger(port) && port >= 0 && port < 65_536)) throw invalid('port', port, '0 to 65535');
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new TestkitError('start-failed', `port ${port} of 127.0.0.1: ${cause.message}`, { cause }));
    });
    server.listen(port, '127.0.0.1', resolve);
  });
  return new TcpProxy(server, address, template);
}

/**
 * A TCP proxy with faults for single connections, requests and replies. What a client has sent and the
 * proxy holds back reaches the server on release, even if the client has closed its socket, was stopped or
 * killed meanwhile: as with bytes that are already on their way through a network.
 */
export class TcpProxy implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  /** The target's URL with the proxy's address in it; `tcp://…` where the target was no URL. */
  readonly url: string;
  readonly #server: Server;
  readonly #connections = new Set<ProxyConnection>();
  readonly #rules = new Set<ProxyRule>();
  readonly #blocked = { request: new Set<Fault>(), reply: new Set<Fault>() };
  readonly #latencyMs = { request: 0, reply: 0 };
  readonly #bytesPerSecond = { request: Number.POSITIVE_INFINITY, reply: Number.POSITIVE_INFINITY };
  readonly #refusing = new Set<Fault>();
  #reopened: (() => void)[] = [];
  #accepted = 0;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(server: Server, target: TcpTarget, template: URL | undefined) {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new TypeError('not listening on TCP');
    this.port = address.port;
    this.url = urlOf(template, this.port);
    this.#server = server;
    server.on('connection', (client) => {
      if (this.#refusing.size > 0) {
        client.on('error', () => {});
        client.resetAndDestroy();
        return;
      }
      this.#accepted++;
      const connection = connectThrough(client, target, {
        rules: this.#rules,
        latencyMs: (direction) => this.#latencyMs[direction],
        bytesPerSecond: (direction) => this.#bytesPerSecond[direction],
        open: (direction) => this.#whenOpen(direction),
      });
      this.#connections.add(connection);
      void connection.closed.then(() => this.#connections.delete(connection));
    });
  }

  /** How many connections are open on either side. */
  get connections(): number {
    return this.#connections.size;
  }

  /** How many connections were accepted since the start; refused ones are not counted. */
  get accepted(): number {
    return this.#accepted;
  }

  /**
   * Holds back the next chunk that matches, once. What follows it on the same connection in the same
   * direction waits behind it; everything else goes on.
   */
  hold(options: HoldOptions): HeldChunk {
    const { direction, match = () => true } = options;
    if (direction === undefined) throw invalid('direction', direction, DIRECTIONS.join(', '));
    checkOneOf('direction', direction, DIRECTIONS);
    checkFunction('match', match);
    const released = deferred<void>();
    const delivered = deferred<boolean>();
    const { taken, remove } = this.#rule('nothing was held', {
      direction,
      match,
      apply: () => released.promise,
      settled: delivered.resolve,
    });
    taken.catch(() => delivered.resolve(false));
    return {
      held: taken,
      release: () => {
        remove();
        released.resolve();
        return delivered.promise;
      },
      [Symbol.dispose]() {
        void this.release();
      },
    };
  }

  /** Passes the next request that matches on, and loses all replies on its connection from then on. */
  loseReply(options: LostReplyOptions = {}): LostReply {
    const { match = () => true, reply: isReply = () => true } = options;
    checkFunction('match', match);
    checkFunction('reply', isReply);
    const lost = deferred<Buffer>();
    let connection: ProxyConnection | undefined;
    const { taken, remove } = this.#rule('no reply was lost', {
      direction: 'request',
      match,
      apply: async (through) => {
        connection = through;
        through.loseReplies((chunk) => isReply(chunk) && lost.resolve(chunk));
      },
    });
    taken.catch(lost.reject);
    const restore = () => {
      remove();
      connection?.cut({ rst: true, side: 'both' });
    };
    return { lost: handled(lost.promise), restore, [Symbol.dispose]: restore };
  }

  /**
   * Swallows everything, in one direction or both, without closing anything, new connections included: the
   * network is gone. Restored, what was swallowed arrives in order, as after TCP's retransmission.
   */
  blackhole(direction?: ProxyDirection): Fault {
    checkOneOf('direction', direction, DIRECTIONS);
    const sets = direction === undefined ? Object.values(this.#blocked) : [this.#blocked[direction]];
    return this.#fault(sets);
  }

  /** Resets new connections at once. Those that exist go on. */
  refuse(): Fault {
    return this.#fault([this.#refusing]);
  }

  /**
   * Lets each chunk arrive `latencyMs` later than it came, in one direction or both, those included that are on
   * their way. Order is kept. 0 ends it.
   */
  setLatency(latencyMs: number, direction?: ProxyDirection): void {
    checkOneOf('direction', direction, DIRECTIONS);
    if (!(latencyMs >= 0 && latencyMs < 2 ** 31)) {
      throw new TestkitError('invalid-option', `latencyMs is ${latencyMs}; expected 0 to 2^31-1`);
    }
    if (direction !== 'reply') this.#latencyMs.request = latencyMs;
    if (direction !== 'request') this.#latencyMs.reply = latencyMs;
    for (const connection of this.#connections) connection.reconsider();
  }

  /**
   * Lets no more bytes a second through on each connection, in one direction or both, from what is on its way
   * on. `Infinity` ends it.
   */
  setBandwidth(bytesPerSecond: number, direction?: ProxyDirection): void {
    checkOneOf('direction', direction, DIRECTIONS);
    if (!(bytesPerSecond >= 1)) {
      throw new TestkitError('invalid-option', `bytesPerSecond is ${bytesPerSecond}; expected 1 or more`);
    }
    if (direction !== 'reply') this.#bytesPerSecond.request = bytesPerSecond;
    if (direction !== 'request') this.#bytesPerSecond.reply = bytesPerSecond;
    for (const connection of this.#connections) connection.reconsider();
  }

  /** Closes all connections there are; new ones are accepted. */
  cut(options: CutOptions = {}): void {
    checkOneOf('side', options.side, ['client', 'both']);
    for (const connection of this.#connections) connection.cut(options);
  }

  /** Lifts blackholes, refusals, latency and bandwidth. Holds and lost replies end by their own handles. */
  restore(): void {
    this.setLatency(0);
    this.setBandwidth(Number.POSITIVE_INFINITY);
    for (const faults of [this.#blocked.request, this.#blocked.reply, this.#refusing]) {
      for (const fault of faults) fault.restore();
    }
  }

  /** Resets every connection and stops listening. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const stopped = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const rule of this.#rules) rule.cancel();
    this.restore();
    this.cut({ rst: true });
    await stopped;
    await Promise.all([...this.#connections].map(({ closed }) => closed));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #rule(unmet: string, plan: Omit<ProxyRule, 'taken' | 'failed' | 'cancel'>) {
    const taken = deferred<Buffer>();
    const remove = () => {
      if (!this.#rules.delete(rule)) return;
      taken.reject(new TestkitError('not-running', `${unmet}: no ${plan.direction} matched before the end`));
    };
    const rule: ProxyRule = { ...plan, taken: taken.resolve, failed: taken.reject, cancel: remove };
    this.#rules.add(rule);
    return { taken: handled(taken.promise), remove };
  }

  #fault(sets: readonly Set<Fault>[]): Fault {
    const restore = () => {
      for (const set of sets) set.delete(fault);
      for (const wake of this.#reopened.splice(0)) wake();
    };
    const fault: Fault = { restore, [Symbol.dispose]: restore };
    for (const set of sets) set.add(fault);
    return fault;
  }

  async #whenOpen(direction: ProxyDirection): Promise<void> {
    while (this.#blocked[direction].size > 0) {
      await new Promise<void>((resolve) => this.#reopened.push(resolve));
    }
  }
}
