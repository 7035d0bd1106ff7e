import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { chunkContaining, postgresQueryContaining } from './chunk-matchers.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { startWorker } from './worker/worker.ts';

/** Says `<text` for each `>text` it gets, and notes everything that reaches it. */
class EchoServer {
  readonly received: string[] = [];
  readonly ends: string[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      socket.setEncoding('utf8');
      socket.on('data', (text: string) => {
        this.received.push(text);
        if (text.startsWith('>')) socket.write(text.replaceAll('>', '<'));
      });
      socket.on('end', () => {
        this.ends.push('fin');
        socket.end('bye');
      });
      socket.on('error', (error: NodeJS.ErrnoException) => this.ends.push(`${error.code}`));
    });
  }

  async listen(): Promise<{ host: string; port: number }> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return { host: '127.0.0.1', port: (this.#server.address() as { port: number }).port };
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }
}

describe('the TCP proxy', () => {
  let echo: EchoServer;
  let address: { host: string; port: number };
  let proxy: TcpProxy;
  const clients: Socket[] = [];

  beforeEach(async () => {
    echo = new EchoServer();
    address = await echo.listen();
    proxy = await startTcpProxy(address);
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy();
    await proxy.close();
    await echo.close();
  });

  async function open({ host, port }: { host: string; port: number } = proxy) {
    const socket = connect({ host, port, noDelay: true, allowHalfOpen: true });
    clients.push(socket);
    const received: string[] = [];
    const ends: string[] = [];
    socket.setEncoding('utf8').on('data', (text: string) => received.push(text));
    socket.on('end', () => ends.push('fin'));
    socket.on('error', (error: NodeJS.ErrnoException) => ends.push(`${error.code}`));
    await once(socket, 'connect');
    return { socket, received, ends };
  }

  async function ask(client: Awaited<ReturnType<typeof open>>, text: string): Promise<void> {
    client.socket.write(`>${text}`);
    await expect.poll(() => client.received).toContain(`<${text}`);
  }

  it('passes bytes and both half-closes on', async () => {
    const client = await open();
    await ask(client, 'a');
    client.socket.end('last');
    await expect.poll(() => client.ends).toEqual(['fin']);
    expect(echo.received).toEqual(['>a', 'last']);
    expect(client.received.join('')).toBe('<abye');
    await expect.poll(() => proxy.connections).toBe(0);
    expect(proxy.accepted).toBe(1);
  });

  it('passes on many megabytes in both directions, intact and in order', async () => {
    const client = await open();
    // Larger than what is read ahead, so that the sender has to wait.
    const sent = `>${Array.from({ length: 1_200_000 }, (_, i) => `${i} `).join('')}`;
    client.socket.write(sent);
    await expect.poll(() => echo.received.join('').length, { timeout: 10_000 }).toBe(sent.length);
    expect(echo.received.join('') === sent).toBe(true);
  });

  it('holds one request, and what follows on its connection, while others go on', async () => {
    const [first, second] = [await open(), await open()];
    const hold = proxy.hold({ direction: 'request', match: chunkContaining('secret') });
    await ask(first, 'before');
    first.socket.write('>secret');
    expect(`${await hold.held}`).toBe('>secret');
    first.socket.write('>after');
    await ask(second, 'secret too');
    expect(echo.received).toEqual(['>before', '>secret too']);

    expect(await hold.release()).toBe(true);
    await expect.poll(() => first.received.join('')).toBe('<before<secret<after');
    expect(echo.received.join('')).toBe('>before>secret too>secret>after');
  });

  it('takes host:port for a target, and names a wrong one', async () => {
    await using byText = await startTcpProxy(`127.0.0.1:${address.port}`);
    expect(byText.url).toBe(`tcp://127.0.0.1:${byText.port}`);
    const client = connect(byText.port, '127.0.0.1');
    clients.push(client);
    client.write('>up');
    expect(`${(await once(client, 'data'))[0]}`).toBe('<up');
    for (const target of ['nonsense', '127.0.0.1:0', '127.0.0.1:70000', undefined as never]) {
      await expect(startTcpProxy(target)).rejects.toMatchObject({
        code: 'invalid-option',
        message: expect.stringContaining(`target is "${target}"; expected`),
      });
    }
    await expect(startTcpProxy(address, { port: 70_000 })).rejects.toThrow(
      'port is 70000; expected 0 to 65535',
    );
    await expect(startTcpProxy(address, { port: proxy.port })).rejects.toMatchObject({
      code: 'start-failed',
      message: expect.stringMatching(/^port \d+ of 127\.0\.0\.1: .*EADDRINUSE/),
    });
  });

  it('refuses a fault that could never be met', () => {
    const direction = 'requests' as never;
    for (const fault of [
      () => proxy.hold({} as never),
      () => proxy.hold({ direction }),
      () => proxy.blackhole(direction),
      () => proxy.setLatency(5, direction),
      () => proxy.setBandwidth(5, direction),
    ]) {
      expect(fault).toThrow(/direction is (undefined|"requests"); expected request, reply/);
    }
    expect(() => proxy.hold({ direction: 'request', match: 'x' as never })).toThrow(
      /match is "x"; expected a f/,
    );
    expect(() => proxy.loseReply({ match: 'x' as never })).toThrow(/match is "x"/);
    expect(() => proxy.loseReply({ reply: 'x' as never })).toThrow(/reply is "x"/);
    expect(() => chunkContaining('')).toThrow(/text is ""/);
    expect(() => chunkContaining(undefined as never)).toThrow(/text is undefined/);
    expect(() => postgresQueryContaining('')).toThrow(/text is ""/);
    expect(() => proxy.cut({ side: 'server' as never })).toThrow(/side is "server"; expected client, both/);
  });

  it.each(['closes', 'resets'] as const)('lets a held request through after its client %s', async (how) => {
    const client = await open();
    await ask(client, 'up');
    const hold = proxy.hold({ direction: 'request' });
    client.socket.write('>late');
    await hold.held;
    const closed = once(client.socket, 'close');
    if (how === 'closes') client.socket.destroy();
    else client.socket.resetAndDestroy();
    await closed;
    // The server has not heard of the end either, since that comes after the request.
    await ask(await open(), 'proof that time went by');
    expect(echo.ends).toEqual([]);

    expect(await hold.release()).toBe(true);
    await expect.poll(() => echo.received).toContain('>late');
    await expect.poll(() => echo.ends).toEqual(['fin']);
  });

  it('lets a held request through after cutting its client off', async () => {
    const client = await open();
    const hold = proxy.hold({ direction: 'request' });
    client.socket.write('>late');
    await hold.held;
    proxy.cut({ rst: true, side: 'client' });
    await expect.poll(() => client.ends).toEqual(['ECONNRESET']);
    expect(echo.received).toEqual([]);
    expect(await hold.release()).toBe(true);
    await expect.poll(() => echo.received).toEqual(['>late']);
  });

  it('loses a held request when both sides are cut', async () => {
    const client = await open();
    const hold = proxy.hold({ direction: 'request' });
    client.socket.write('>never');
    await hold.held;
    proxy.cut();
    await expect.poll(() => client.ends).toEqual(['fin']);
    expect(await hold.release()).toBe(false);
    await expect.poll(() => proxy.connections).toBe(0);
    expect(echo.received).toEqual([]);
  });

  it('holds a reply', async () => {
    const client = await open();
    const hold = proxy.hold({ direction: 'reply', match: chunkContaining('<b') });
    await ask(client, 'a');
    client.socket.write('>b');
    await hold.held;
    expect(echo.received).toEqual(['>a', '>b']);
    expect(client.received).toEqual(['<a']);
    await hold.release();
    await expect.poll(() => client.received).toEqual(['<a', '<b']);
  });

  it('says so when a hold ends before anything matched', async () => {
    const hold = proxy.hold({ direction: 'request', match: () => false });
    expect(await hold.release()).toBe(false);
    await expect(hold.held).rejects.toMatchObject({ code: 'not-running' });
    const broken = proxy.hold({
      direction: 'request',
      match: () => {
        throw new Error('matcher');
      },
    });
    await ask(await open(), 'still passes');
    await expect(broken.held).rejects.toThrow('matcher');
    const open_ = proxy.hold({ direction: 'request', match: () => false });
    await proxy.close();
    await expect(open_.held).rejects.toMatchObject({ code: 'not-running' });
  });

  it('loses the reply of a request that was carried out', async () => {
    const client = await open();
    const lost = proxy.loseReply({ match: chunkContaining('pay') });
    await ask(client, 'a');
    client.socket.write('>pay');
    expect(`${await lost.lost}`).toBe('<pay');
    expect(echo.received).toEqual(['>a', '>pay']);
    await ask(await open(), 'others go on');
    expect(client.received).toEqual(['<a']);
    lost.restore();
    await expect.poll(() => client.ends).toEqual(['ECONNRESET']);
  });

  it.each([
    { rst: true, seen: 'ECONNRESET' },
    { rst: false, seen: 'fin' },
  ])('cuts all connections, rst $rst, and takes new ones', async ({ rst, seen }) => {
    const both = [await open(), await open()];
    for (const client of both) await ask(client, 'up');
    proxy.cut({ rst });
    await expect.poll(() => both.map(({ ends }) => ends)).toEqual([[seen], [seen]]);
    await expect.poll(() => echo.ends).toEqual([seen, seen]);
    await ask(await open(), 'again');
  });

  it('swallows everything in a blackhole, closes nothing, and delivers afterwards', async () => {
    const client = await open();
    await ask(client, 'a');
    const fault = proxy.blackhole();
    client.socket.write('>b');
    const late = await open();
    late.socket.end('>c');
    await ask(await open(address), 'proof that time went by');
    expect(echo.received).toEqual(['>a', '>proof that time went by']);
    expect([client.ends, late.ends]).toEqual([[], []]);
    expect(proxy.connections).toBe(2);
    fault.restore();
    await expect.poll(() => client.received).toEqual(['<a', '<b']);
    await expect.poll(() => late.received.join('')).toBe('<cbye');
    expect(client.ends).toEqual([]);
  });

  it('swallows one direction only when told', async () => {
    const client = await open();
    await ask(client, 'a');
    using _fault = proxy.blackhole('reply');
    client.socket.write('>b');
    await expect.poll(() => echo.received).toEqual(['>a', '>b']);
    expect(client.received).toEqual(['<a']);
    proxy.restore();
    await expect.poll(() => client.received).toEqual(['<a', '<b']);
  });

  it('resets new connections while it refuses, and keeps the old', async () => {
    const old = await open();
    await ask(old, 'a');
    const fault = proxy.refuse();
    const refused = connect({ host: proxy.host, port: proxy.port });
    const [error] = (await once(refused, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
    await ask(old, 'b');
    fault.restore();
    await ask(await open(), 'c');
    expect(proxy.accepted).toBe(2);
  });

  it('delays, in order, without adding the delays up', async () => {
    const client = await open();
    await ask(client, 'up');
    proxy.setLatency(100);
    const start = performance.now();
    for (let i = 0; i < 10; i++) {
      client.socket.write(`>${i}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await expect.poll(() => client.received.join('')).toContain('9');
    expect(performance.now() - start).toBeGreaterThanOrEqual(200);
    expect(client.received.join('').replace(/\D/g, '')).toBe('0123456789');
    expect(() => proxy.setLatency(Number.NaN)).toThrow('latencyMs is NaN');
  });

  it('lets what waits for its latency go when the latency ends', async () => {
    const client = await open();
    proxy.setLatency(60_000);
    client.socket.write('>a');
    await expect.poll(() => client.socket.bytesWritten).toBe(2);
    proxy.setLatency(0);
    await expect.poll(() => client.received.join('')).toContain('a');
  });

  it('lets no more bytes a second through than it is told, in slices and in order', async () => {
    const client = await open();
    proxy.setBandwidth(4_000, 'request');
    const text = Array.from({ length: 1_000 }, (_, index) => `${index}`.padStart(4, ' ')).join('');
    const start = performance.now();
    client.socket.write(text);
    await expect.poll(() => echo.received.join('').length, { interval: 5 }).toBeGreaterThan(0);
    expect(echo.received.join('').length).toBeLessThan(4_000);
    await expect.poll(() => echo.received.join(''), { interval: 5 }).toBe(text);
    // 4,000 bytes at 4,000 a second.
    expect(performance.now() - start).toBeGreaterThanOrEqual(995);
    client.socket.write(Buffer.alloc(10_000_000));
    proxy.setBandwidth(Number.POSITIVE_INFINITY);
    await expect.poll(() => echo.received.join('').length, { timeout: 10_000 }).toBe(10_004_000);
    for (const wrong of [0, -1, Number.NaN]) {
      expect(() => proxy.setBandwidth(wrong)).toThrow(`bytesPerSecond is ${wrong}`);
    }
  });

  describe('a removed fault restores traffic on the connection that there was', () => {
    const FAULTS: Record<string, () => () => unknown> = {
      'blackhole, both ways': () => proxy.blackhole().restore,
      'blackhole of requests': () => proxy.blackhole('request').restore,
      'blackhole of replies': () => proxy.blackhole('reply').restore,
      'refused connections': () => proxy.refuse().restore,
      latency: () => {
        proxy.setLatency(60_000);
        return () => proxy.setLatency(0);
      },
      bandwidth: () => {
        proxy.setBandwidth(1);
        return () => proxy.setBandwidth(Number.POSITIVE_INFINITY);
      },
      'a held request': () => {
        const held = proxy.hold({ direction: 'request' });
        return () => held.release();
      },
      'a held reply': () => {
        const held = proxy.hold({ direction: 'reply' });
        return () => held.release();
      },
      'everything at once': () => {
        proxy.blackhole();
        proxy.refuse();
        proxy.setLatency(60_000);
        proxy.setBandwidth(1);
        return () => proxy.restore();
      },
    };
    it.each(Object.entries(FAULTS))('%s', async (_, strike) => {
      const client = await open();
      client.socket.write('>before');
      await expect.poll(() => client.received.join('')).toBe('<before');
      const heal = strike();
      client.socket.write('>during');
      await expect.poll(() => client.socket.bytesWritten).toBe(14);
      heal();
      await expect.poll(() => client.received.join('')).toBe('<before<during');
      client.socket.write('>after');
      await expect.poll(() => client.received.join('')).toBe('<before<during<after');
      expect(proxy.accepted).toBe(1);
      expect(client.ends).toEqual([]);
    });
  });

  it('resets its client when nothing listens at the target', async () => {
    await using dead = await startTcpProxy({ host: '127.0.0.1', port: 1 });
    const socket = connect({ host: dead.host, port: dead.port });
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  });

  it('puts its address in the place of the target in a URL', async () => {
    await using postgres = await startTcpProxy('postgres://me:s%40fe@localhost:5433/data?ssl=0');
    expect(postgres.url).toBe(`postgres://me:s%40fe@127.0.0.1:${postgres.port}/data?ssl=0`);
    await using etcd = await startTcpProxy('http://localhost:2379');
    expect(etcd.url).toBe(`http://127.0.0.1:${etcd.port}`);
    await expect(startTcpProxy('tcp://localhost')).rejects.toMatchObject({ code: 'invalid-option' });
  });
});

describe('in front of PostgreSQL', { timeout: 60_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres({ own: true });
  });
  afterAll(() => server?.stop());

  it.each(['stopped', 'killed'] as const)(
    'a write held back arrives after its client was %s',
    async (fate) => {
      await using proxy = await startTcpProxy(server.url);
      const direct = new pg.Client(server.url);
      await direct.connect();
      await direct.query('DROP TABLE IF EXISTS account; CREATE TABLE account AS SELECT 100 AS balance');
      const balance = async () => (await direct.query('SELECT balance FROM account')).rows[0].balance;

      const hold = proxy.hold({ direction: 'request', match: postgresQueryContaining('UPDATE account') });
      await using client = await startWorker(new URL('./fixtures/postgres-writer.ts', import.meta.url), {
        args: [proxy.url],
      });
      await hold.held;
      if (fate === 'stopped') await client.pause();
      else await client.kill();
      await direct.query('UPDATE account SET balance = 70');
      expect(await balance()).toBe(70);

      expect(await hold.release()).toBe(true);
      // Its late write has won over the newer one: what a guard is for.
      await expect.poll(balance).toBe(110);
      await direct.end();
    },
  );
});

describe('postgresQueryContaining', () => {
  const message = (type: string, body: string) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4 + Buffer.byteLength(body));
    return Buffer.concat([Buffer.from(type), length, Buffer.from(body)]);
  };

  it('finds SQL in Query and Parse, not in parameters', () => {
    const matches = postgresQueryContaining('UPDATE');
    const sync = message('S', '');
    expect(matches(message('Q', 'UPDATE a\0'))).toBe(true);
    expect(matches(Buffer.concat([sync, message('P', '\0UPDATE a\0\0\0'), sync]))).toBe(true);
    expect(matches(Buffer.concat([message('P', '\0SELECT $1\0\0\0'), message('B', 'UPDATE')]))).toBe(false);
    expect(matches(message('Q', 'UPDATE a, with its end still to come').subarray(0, 20))).toBe(true);
    expect(matches(Buffer.from('no message at all: UPDATE'))).toBe(false);
  });
});
