import {
  type CallOptions,
  Channel,
  type ChannelCredentials,
  type ChannelInterface,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  connectivityState,
  Metadata,
} from '@grpc/grpc-js';
import { noop } from 'cockatiel';
import { Etcd3 } from 'etcd3';
import type { Clock } from '../../clock.ts';
import type { ConnectionSecurity } from './credentials.ts';
import { type Failure, failureOf } from './failure.ts';
import type { Address } from './options.ts';
import type { Bounds, PendingCalls } from './pending-calls.ts';
import { Rpc, type RpcHeaders } from './rpc.ts';

/** As etcd's own client: what a member sends is trusted, and a watch can deliver thousands of events at once. */
const MAX_RECEIVE_BYTES = 2 ** 31 - 1;

export interface EndpointOptions {
  readonly clock: Clock;
  readonly pending: PendingCalls;
  readonly security: ConnectionSecurity;
  readonly keepaliveMs: number;
}

interface Open {
  readonly channel: ChannelInterface;
  readonly client: Etcd3;
  /** For messages that we encode and decode ourselves. */
  readonly plain: Client;
  /** What its connections are made with. */
  readonly credentials: ChannelCredentials;
}

/** One RPC whose messages are bytes. */
export type Unary = (path: string, request: Buffer, options: CallOptions) => Promise<Buffer>;

export type Send<T> = (client: Etcd3, options: CallOptions, unary: Unary) => Promise<T>;

export type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly failure: Failure };

/**
 * One member of etcd: a channel of ours, and the typed stubs of `etcd3` on it. Nothing of that library's
 * own retries, breakers, reconnects and logins takes part; nothing is opened before the first use.
 */
export class Endpoint {
  /** `http://host:port`, for messages. */
  readonly name: string;
  readonly #authority: string;
  readonly #options: EndpointOptions;
  #open: Open | undefined;
  #closed = false;

  constructor(address: Address, options: EndpointOptions) {
    this.name = `${address.scheme}://${address.authority}`;
    this.#authority = address.authority;
    this.#options = options;
  }

  get client(): Etcd3 {
    return this.#opened().client;
  }

  /**
   * Whether a connection stands on which the member has spoken HTTP/2: a port that accepts and stays mute
   * never gets there.
   */
  get connected(): boolean {
    return this.#open !== undefined && stateOf(this.#open) === connectivityState.READY;
  }

  /** One try of one RPC. Rejects only for an abort of the caller or the end of the coordinator. */
  async attempt<T>(what: string, bounds: Bounds, headers: RpcHeaders, send: Send<T>): Promise<Attempt<T>> {
    const { clock, pending } = this.#options;
    const rpc = new Rpc(clock.wallTime() + bounds.limitMs, headers);
    const settled = await pending.wait(rpc, bounds, async () => send(this.client, rpc.options, this.#unary));
    if (settled.how === 'done') return { ok: true, value: settled.value };
    return { ok: false, failure: failureOf(`${what} on ${this.name}`, rpc, settled, bounds.limitMs) };
  }

  /** A stream of messages that are bytes. @throws Error once closed. */
  duplex(path: string, options: CallOptions): ClientDuplexStream<Buffer, Buffer> {
    return this.#opened().plain.makeBidiStreamRequest(path, same, same, new Metadata(), options);
  }

  readonly #unary: Unary = (path, request, options) =>
    new Promise((resolve, reject) => {
      const { plain } = this.#opened();
      plain.makeUnaryRequest(path, same, same, request, new Metadata(), options, (error, reply) => {
        if (error === null && reply !== undefined) resolve(reply);
        else reject(error);
      });
    });

  /** Connects if need be, with the certificates of now. A failure here has sent nothing that could change anything. */
  async connect(bounds: Bounds): Promise<Failure | undefined> {
    if (this.connected) return undefined;
    const { clock, pending, security } = this.#options;
    const until = clock.now() + bounds.limitMs;
    // A file system that hangs leaves time to go on with what is known.
    await pending.wait(undefined, { ...bounds, limitMs: bounds.limitMs / 2 }, () => security.refresh());
    this.#dropOutdated();
    const left = { ...bounds, limitMs: Math.max(0, until - clock.now()) };
    const greeting = await this.attempt('connecting', left, {}, ({ maintenance }, options) =>
      maintenance.status(options),
    );
    // A refusal is an answer too: rights to ask for the status are not needed to be served.
    if (greeting.ok || greeting.failure.kind === 'refused' || greeting.failure.kind === 'stale-login')
      return undefined;
    const { text } = greeting.failure;
    const hint = security.problem === undefined ? text : `${text} (${security.problem.message})`;
    return { ...greeting.failure, kind: 'unsent', text: hint };
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  /**
   * A channel that failed answers for itself, up to a second long, from what it knows; and a channel keeps
   * the certificates that it was made with. Only a new one asks, and takes new ones.
   */
  #dropOutdated(): void {
    if (this.#open === undefined) return;
    const state = stateOf(this.#open);
    const rotated = this.#open.credentials !== this.#options.security.current;
    if (state === connectivityState.TRANSIENT_FAILURE || (rotated && state === connectivityState.IDLE))
      this.#drop();
  }

  #drop(): void {
    this.#open?.client.close();
    this.#open?.plain.close();
    this.#open?.channel.close();
    this.#open = undefined;
  }

  #opened(): Open {
    if (this.#open !== undefined) return this.#open;
    if (this.#closed) throw new Error(`${this.name} was closed`);
    const { security, keepaliveMs } = this.#options;
    const credentials = security.current;
    const channel = new Channel(this.#authority, credentials, channelOptions(keepaliveMs));
    const channelOverride = keptOpen(channel);
    const client = new Etcd3({
      hosts: this.#authority,
      faultHandling: { global: noop, host: () => noop },
      grpcOptions: { channelOverride },
    });
    const plain = new Client(this.#authority, credentials, { channelOverride });
    this.#open = { channel, client, plain, credentials };
    return this.#open;
  }
}

const same = (message: Buffer): Buffer => message;

function stateOf({ channel }: Open): connectivityState {
  return channel.getConnectivityState(false);
}

/** `etcd3` closes a member's channel on every error that it takes for a sign of a dead member; we do not. */
function keptOpen(channel: ChannelInterface): ChannelInterface {
  return {
    close: () => {},
    getTarget: () => channel.getTarget(),
    getConnectivityState: (tryToConnect) => channel.getConnectivityState(tryToConnect),
    watchConnectivityState: (state, deadline, callback) =>
      channel.watchConnectivityState(state, deadline, callback),
    getChannelzRef: () => channel.getChannelzRef(),
    createCall: (method, deadline, host, parent, flags) =>
      channel.createCall(method, deadline, host, parent, flags),
  };
}

function channelOptions(keepaliveMs: number): ChannelOptions {
  return {
    'grpc.keepalive_time_ms': keepaliveMs,
    'grpc.keepalive_timeout_ms': 2_000,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
    'grpc.max_receive_message_length': MAX_RECEIVE_BYTES,
    // Our sockets end with us, and are not shared with other gRPC clients of the process.
    'grpc.use_local_subchannel_pool': 1,
    // Else retries could be switched on from DNS, and an HTTP proxy from the environment put in between.
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
  };
}
