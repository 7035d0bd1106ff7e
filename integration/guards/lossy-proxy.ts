import net from 'node:net';

/**
 * What happens to the next message that contains `text`:
 * - `drop-reply`: the server gets it, the client's connection ends instead of its reply;
 * - `drop-request`: the client's connection ends before the server gets it.
 */
export interface Fault {
  readonly text: string;
  readonly kind: 'drop-reply' | 'drop-request';
}

/** Stands between a client and a server on loopback and loses one message when told to. */
export class LossyProxy implements AsyncDisposable {
  fault: Fault | undefined;
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();

  private constructor(target: { readonly host: string; readonly port: number }) {
    this.#server = net.createServer((client) => this.#forward(client, net.connect(target)));
  }

  static async start(target: { readonly host: string; readonly port: number }): Promise<LossyProxy> {
    const proxy = new LossyProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  #forward(client: net.Socket, server: net.Socket): void {
    let cutAtReply = false;
    const cut = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', cut).on('close', () => {
        this.#sockets.delete(socket);
        cut();
      });
    }
    client.on('data', (chunk) => {
      const { fault } = this;
      if (fault !== undefined && chunk.includes(fault.text)) {
        this.fault = undefined;
        if (fault.kind === 'drop-request') return cut();
        cutAtReply = true;
      }
      server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (cutAtReply) cut();
      else client.write(chunk);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
