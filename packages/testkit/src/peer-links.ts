import { createServer, type Server, type Socket } from 'node:net';
import { type Fault, faultOf } from './fault.ts';
import { connectThrough, type ProxyConnection } from './proxy-connection.ts';

/** A member's side of the links: what the others dial, and where it really listens. */
export interface PeerPorts {
  readonly advertised: number;
  readonly listening: number;
}

interface Link {
  readonly to: PeerPorts;
  /** The advertised port of the member that dialled, once it has said so. */
  from: number | undefined;
}

/** By the advertised ports of members: which group each is in. */
type Partition = ReadonlyMap<number, number>;

const END_OF_HEAD = '\r\n\r\n';
const LONGEST_HEAD_BYTES = 64 * 1024;

/**
 * The connections among the members of a cluster, each passed on by this process, so that groups of members
 * can be cut off from each other while clients still reach them. Nothing is closed for it: what a member sent
 * in vain arrives when the partition ends, unless it has given the connection up.
 *
 * A member names itself in the head of each request that carries the consensus protocol. Others pass always.
 */
export class PeerLinks implements AsyncDisposable {
  readonly #servers: readonly Server[];
  readonly #connections = new Set<ProxyConnection>();
  readonly #partitions = new Set<Partition>();
  #reopened: (() => void)[] = [];

  static async open(members: readonly PeerPorts[]): Promise<PeerLinks> {
    const servers = members.map(() => createServer({ allowHalfOpen: true, noDelay: true }));
    const links = new PeerLinks(members, servers);
    try {
      await Promise.all(members.map(({ advertised }, index) => listen(servers[index] as Server, advertised)));
      return links;
    } catch (error) {
      await links[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(members: readonly PeerPorts[], servers: readonly Server[]) {
    this.#servers = servers;
    for (const [index, to] of members.entries()) {
      servers[index]?.on('connection', (socket) => this.#join(socket, to));
    }
  }

  /** Cuts the groups off from each other, in both directions, until restored. Who is in none reaches everybody. */
  partition(groups: readonly (readonly PeerPorts[])[]): Fault {
    const partition: Partition = new Map(
      groups.flatMap((group, index) => group.map(({ advertised }) => [advertised, index] as const)),
    );
    this.#partitions.add(partition);
    return faultOf(() => {
      this.#partitions.delete(partition);
      for (const wake of this.#reopened.splice(0)) wake();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const connection of this.#connections) connection.cut({ rst: true });
    await Promise.all(closed);
  }

  #join(dialler: Socket, to: PeerPorts): void {
    const link: Link = { to, from: undefined };
    const connection = connectThrough(
      dialler,
      { host: '127.0.0.1', port: to.listening },
      {
        rules: new Set(),
        latencyMs: () => 0,
        bytesPerSecond: () => Number.POSITIVE_INFINITY,
        open: () => this.#whenOpen(link),
      },
    );
    this.#connections.add(connection);
    void connection.closed.then(() => this.#connections.delete(connection));
    let head = '';
    const onHead = (chunk: Buffer) => {
      head += chunk.toString('latin1');
      if (!head.includes(END_OF_HEAD) && head.length < LONGEST_HEAD_BYTES) return;
      dialler.off('data', onHead);
      link.from = Number(/^X-PeerURLs: .*:(\d+)\/?\r$/im.exec(head)?.[1]);
    };
    dialler.on('data', onHead);
  }

  async #whenOpen(link: Link): Promise<void> {
    while (this.#isSevered(link)) await new Promise<void>((resolve) => this.#reopened.push(resolve));
  }

  #isSevered({ from, to }: Link): boolean {
    return [...this.#partitions].some((groups) => {
      const [here, there] = [groups.get(from ?? Number.NaN), groups.get(to.advertised)];
      return here !== undefined && there !== undefined && here !== there;
    });
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
}
