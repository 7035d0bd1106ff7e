import { connect, type Socket } from 'node:net';
import { type ProxyDirection, ProxyLane } from './proxy-lane.ts';
import { resetSocket } from './reset-socket.ts';

/** Applied to the first chunk that matches, on whichever connection, and then gone. */
export interface ProxyRule {
  readonly direction: ProxyDirection;
  readonly match: (chunk: Buffer) => boolean;
  /** Told of the match before anything is done about it. */
  readonly taken: (chunk: Buffer) => void;
  /** Told when `match` threw; the rule is gone then. */
  readonly failed: (error: unknown) => void;
  /** The chunk waits until this resolves. */
  readonly apply: (connection: ProxyConnection) => Promise<void>;
  /** Told whether the chunk was delivered in the end. */
  readonly settled?: ((delivered: boolean) => void) | undefined;
  readonly cancel: () => void;
}

/** What the proxy's connections share. */
export interface ProxySurroundings {
  readonly rules: Set<ProxyRule>;
  latencyMs(direction: ProxyDirection): number;
  bytesPerSecond(direction: ProxyDirection): number;
  open(direction: ProxyDirection): Promise<void>;
}

export interface ProxyConnection {
  /** Resolves when both sockets are closed and both lanes have nothing more to do. */
  readonly closed: Promise<void>;
  /** From now on replies do not arrive; `onReply` sees each. */
  loseReplies(onReply: (chunk: Buffer) => void): void;
  /** Latency or bandwidth have changed. */
  reconsider(): void;
  cut(options: { readonly rst?: boolean | undefined; readonly side?: 'client' | 'both' | undefined }): void;
}

/** Joins an accepted client with a new connection to the target, by one lane in each direction. */
export function connectThrough(
  client: Socket,
  target: { readonly host: string; readonly port: number },
  surroundings: ProxySurroundings,
): ProxyConnection {
  const server = connect({ ...target, allowHalfOpen: true, noDelay: true });
  let onLostReply: ((chunk: Buffer) => void) | undefined;

  const lane = (direction: ProxyDirection, source: Socket, sink: Socket) => {
    let applied: ProxyRule | undefined;
    // The server sees the end of a client that was reset as a FIN: an RST could overtake its last request.
    return new ProxyLane(source, sink, direction === 'request' ? 'as fin' : 'as reset', {
      latencyMs: () => surroundings.latencyMs(direction),
      bytesPerSecond: () => surroundings.bytesPerSecond(direction),
      open: () => surroundings.open(direction),
      admit: async (chunk) => {
        applied = takeRule(surroundings.rules, direction, chunk);
        await applied?.apply(connection);
        if (direction !== 'reply' || onLostReply === undefined) return true;
        onLostReply(chunk);
        return false;
      },
      settled: (_chunk, delivered) => applied?.settled?.(delivered),
    });
  };

  const requests = lane('request', client, server);
  const replies = lane('reply', server, client);
  const closed = Promise.all([requests.done, replies.done, closeOf(client), closeOf(server)]);
  const connection: ProxyConnection = {
    closed: closed.then(() => {}),
    loseReplies: (onReply) => {
      onLostReply = onReply;
    },
    reconsider: () => {
      requests.reconsider();
      replies.reconsider();
    },
    cut: ({ rst = false, side = 'both' }) => {
      if (side === 'both') {
        requests.abandon();
        replies.abandon();
      }
      for (const socket of side === 'both' ? [client, server] : [client]) {
        if (rst) resetSocket(socket);
        else socket.destroySoon();
      }
    },
  };
  return connection;
}

/** The first rule that matches, which is then used up. */
function takeRule(rules: Set<ProxyRule>, direction: ProxyDirection, chunk: Buffer): ProxyRule | undefined {
  for (const rule of rules) {
    if (rule.direction !== direction) continue;
    try {
      if (!rule.match(chunk)) continue;
    } catch (error) {
      rules.delete(rule);
      rule.failed(error);
      continue;
    }
    rules.delete(rule);
    rule.taken(chunk);
    return rule;
  }
  return undefined;
}

function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}
