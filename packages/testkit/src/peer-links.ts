import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Fault } from './fault.ts';

/** A member's side of the links: what the others dial, and where it really listens. */
export interface PeerPorts {
  readonly advertised: number;
  readonly listening: number;
}

interface Link {
  readonly to: PeerPorts;
  /** The advertised port of the member that dialled, once it has said so. */
  from: number | undefined;
  readonly sockets: readonly [Socket, Socket];
}

const END_OF_HEAD = '\r\n\r\n';
const LONGEST_HEAD_BYTES = 64 * 1024;

/**
 * The connections among the members of a cluster, each passed on by this process, so that single members
 * can be cut off from the others while clients still reach them. A member names itself in the head of each
 * request that carries the consensus protocol.
 */
export class PeerLinks implements AsyncDisposable {
  readonly #servers: readonly Server[];
  readonly #links = new Set<Link>();
  readonly #isolated = new Map<number, Set<Fault>>();

  static async open(members: readonly PeerPorts[]): Promise<PeerLinks> {
    const servers = members.map(() => createServer());
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

  /** Cuts the links of one member to all others, in both directions, until restored. */
  isolate(member: PeerPorts): Fault {
    const faults = this.#isolated.get(member.advertised) ?? new Set();
    const restore = () => {
      faults.delete(fault);
    };
    const fault: Fault = { restore, [Symbol.dispose]: restore };
    this.#isolated.set(member.advertised, faults.add(fault));
    for (const link of this.#links) this.#cutIfIsolated(link);
    return fault;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const link of this.#links) cut(link);
    await Promise.all(closed);
  }

  #join(dialler: Socket, to: PeerPorts): void {
    const listener = connect({ host: '127.0.0.1', port: to.listening, noDelay: true });
    const link: Link = { to, from: undefined, sockets: [dialler, listener] };
    this.#links.add(link);
    for (const socket of link.sockets) {
      socket.once('error', () => cut(link));
      socket.once('close', () => this.#links.delete(link) && cut(link));
    }
    listener.pipe(dialler);
    let head = Buffer.alloc(0);
    const onHead = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk]);
      if (!head.includes(END_OF_HEAD) && head.length < LONGEST_HEAD_BYTES) return;
      dialler.off('data', onHead);
      link.from = Number(/^X-PeerURLs: .*:(\d+)\/?\r$/im.exec(head.toString('latin1'))?.[1]);
      if (this.#cutIfIsolated(link)) return;
      listener.write(head);
      dialler.pipe(listener);
    };
    dialler.on('data', onHead);
    this.#cutIfIsolated(link);
  }

  #cutIfIsolated(link: Link): boolean {
    const isolated = [link.to.advertised, link.from ?? Number.NaN].some(
      (port) => (this.#isolated.get(port)?.size ?? 0) > 0,
    );
    if (isolated) cut(link);
    return isolated;
  }
}

function cut({ sockets }: Link): void {
  for (const socket of sockets) socket.destroy();
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
}
