import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { deferred } from './deferred.ts';
import { ProxyLane } from './proxy-lane.ts';

describe('a lane of the proxy', () => {
  const sockets: Socket[] = [];
  let server: Server | undefined;

  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    server?.close();
    server = undefined;
  });

  /** Both ends of a connection. */
  async function connected(): Promise<[Socket, Socket]> {
    server ??= createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    if (!server.listening) await once(server, 'listening');
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const { port } = server.address() as AddressInfo;
    const near = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    const [far] = await accepted;
    sockets.push(near, far);
    return [near, far];
  }

  it.each(['idle', 'ending'] as const)(
    'closes a sink that is %s when its source was reset',
    async (state) => {
      const [source, sender] = await connected();
      const [sink, receiver] = await connected();
      const errors: Error[] = [];
      sink.on('error', (error) => errors.push(error));
      const seen: string[] = [];
      receiver.on('error', (error: NodeJS.ErrnoException) => seen.push(`${error.code}`));
      receiver.on('end', () => seen.push('fin')).resume();

      const arrived = deferred<void>();
      const mayPass = deferred<void>();
      const open = () => {
        arrived.resolve();
        return mayPass.promise;
      };
      const control = {
        latencyMs: () => 0,
        bytesPerSecond: () => Number.POSITIVE_INFINITY,
        admit: async () => true,
        open,
        settled: () => {},
      };
      const lane = new ProxyLane(source, sink, 'as reset', control);
      sender.resetAndDestroy();
      await arrived.promise;
      const closed = once(sink, 'close');
      // The FIN is handed to the kernel in the next turn; the lane goes on in this one.
      if (state === 'ending') sink.destroySoon();
      mayPass.resolve();
      await Promise.all([closed, lane.done]);
      expect(errors).toEqual([]);
      await expect.poll(() => seen).toEqual([state === 'idle' ? 'ECONNRESET' : 'fin']);
    },
  );
});
