import { type CallOptions, InterceptingCall, type Interceptor, status } from '@grpc/grpc-js';

/** How etcd, or the transport in its place, ended an RPC: a gRPC code and a text. */
export interface RpcStatus {
  readonly code: status;
  readonly details: string;
}

export interface RpcHeaders {
  readonly token?: string | undefined;
  /** Makes a member without a leader refuse at once, and end a stream when it loses the leader. */
  readonly requireLeader?: boolean | undefined;
}

/**
 * One RPC as the wire sees it. It knows whether anything was sent and how the RPC ended in etcd's own words
 * (the client library keeps neither), carries our headers, and can be given up at any moment.
 */
export class Rpc {
  /** Nothing at all has left this process while this is false. */
  started = false;
  /** Set once the RPC has ended. */
  status: RpcStatus | undefined;
  readonly options: CallOptions;
  readonly #headers: RpcHeaders;
  #call: InterceptingCall | undefined;
  #givenUp = false;

  /** @param deadline wall-clock milliseconds since the epoch; `Infinity` for none. */
  constructor(deadline: number, headers: RpcHeaders) {
    this.#headers = headers;
    this.options = { deadline, interceptors: [this.#intercept] };
  }

  readonly #intercept: Interceptor = (options, nextCall) => {
    if (this.#givenUp) throw new Error('given up before it was sent');
    // `etcd3` repeats, for ever, what was refused for its token. Here nothing is sent twice.
    if (this.started) throw new Error(this.status?.details ?? 'sent already');
    this.#call = new InterceptingCall(nextCall(options), {
      start: (metadata, _listener, next) => {
        this.started = true;
        if (this.#headers.token !== undefined) metadata.set('token', this.#headers.token);
        if (this.#headers.requireLeader) metadata.set('hasleader', 'true');
        next(metadata, {
          onReceiveStatus: (ended, pass) => {
            this.status = ended;
            pass(ended);
          },
        });
      },
    });
    return this.#call;
  };

  /** Stops waiting, and tells the server so. What was sent may still be carried out. */
  giveUp(): void {
    this.#givenUp = true;
    if (this.status === undefined) this.#call?.cancelWithStatus(status.CANCELLED, 'given up');
  }
}
