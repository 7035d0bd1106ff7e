// Case D6 over HTTP, on real connections: applied, certainly not applied, unknown. And what a client makes of a
// server that is no guard.
import { createServer, type RequestListener } from 'node:http';
import { connect } from '@lockkeeper/core';
import { memoryCoordinator } from '@lockkeeper/core/memory';
import { FencingToken, type Guard, type GuardAdmin } from '@lockkeeper/fencing';
import { fencedFetch, fencingEndpoint, httpGuard, verifiedGuard } from '@lockkeeper/resource-guard/http';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { chunkContaining, startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type App, Desk, listen, startNodeApp } from './http-apps.ts';

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const [NOW, NEXT] = [token(5n), token(6n)];
const POST = { method: 'POST' };

const open: AsyncDisposable[] = [];
/** Closed when the test is over, last one first. */
function opened<T extends AsyncDisposable>(resource: T): T {
  open.push(resource);
  return resource;
}
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource[Symbol.asyncDispose]();
});

let desk: Desk;
let guard: Guard<undefined> & GuardAdmin;
let app: App;
let proxy: TcpProxy;
beforeEach(async () => {
  desk = new Desk();
  guard = memoryGuard({ resource: 'invoices' });
  desk.guard(guard);
  await guard.claim(NOW);
  app = opened(await startNodeApp(desk));
  proxy = opened(await startTcpProxy(app.url));
});

const answering = async (listener: RequestListener) => opened(await listen(createServer(listener)));
const unknown = { code: 'unknown', outcome: 'unknown' };

describe('a request under a token', () => {
  const append = (signal?: AbortSignal) =>
    fencedFetch(NOW)(new URL('/invoices/append', proxy.url), signal ? { ...POST, signal } : POST);

  it('whose reply is lost is unknown, and was carried out once', async () => {
    const reply = proxy.loseReply({ match: chunkContaining('append') });
    const call = append();
    void reply.lost.then(
      () => proxy.cut(),
      () => {},
    );
    await expect(call).rejects.toMatchObject({ ...unknown, token: NOW });
    expect([desk.handled, desk.entries]).toEqual([1, ['append a5']]);
  });

  it('that is lost on the way is unknown too: nobody can tell the difference', async () => {
    const held = proxy.hold({ direction: 'request', match: chunkContaining('append') });
    void held.held.then(
      () => proxy.cut({ rst: true }),
      () => {},
    );
    await expect(append()).rejects.toMatchObject(unknown);
    expect(desk.handled).toBe(0);
  });

  it('that arrives after its sender gave up and another holder claimed is refused in the service', async () => {
    const held = proxy.hold({ direction: 'request', match: chunkContaining('append') });
    const stop = new AbortController();
    const call = append(stop.signal);
    await held.held;
    const reason = new Error('no longer wanted');
    stop.abort(reason);
    await expect(call).rejects.toMatchObject({ ...unknown, cause: reason });
    await guard.claim(NEXT);
    const refused = new Promise<void>((resolve) => {
      const run: typeof guard.run = (presented, effect, options) =>
        guard.run(presented, effect, options).finally(resolve);
      desk.guard(Object.assign(Object.create(guard) as typeof guard, { resource: 'invoices', run }));
    });
    expect(await held.release()).toBe(true);
    await refused;
    expect((await fencedFetch(NEXT)(`${app.url}/invoices/append`, POST)).status).toBe(200);
    expect([desk.handled, desk.entries]).toEqual([1, ['append a6']]);
  });

  it('whose signal had aborted before is not sent', async () => {
    const reason = new Error('no longer wanted');
    await expect(append(AbortSignal.abort(reason))).rejects.toBe(reason);
    expect([proxy.accepted, desk.handled]).toEqual([0, 0]);
  });

  it('that finds nobody is unavailable', async () => {
    await app[Symbol.asyncDispose]();
    const call = fencedFetch(NOW)(`${app.url}/invoices/append`, POST);
    await expect(call).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed', token: NOW });
    const nowhere = fencedFetch(NOW)('http://nobody.invalid/', POST);
    await expect(nowhere).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('whose refusal is cut off in the middle is unknown', async () => {
    const cut = await answering((_, response) => {
      response.writeHead(412, { 'content-type': 'application/problem+json', 'content-length': '500' });
      response.write('{"code":', () => response.destroy());
    });
    await expect(fencedFetch(NOW)(cut.url, POST)).rejects.toMatchObject(unknown);
  });

  it("takes its token nowhere else: a redirect is the caller's", async () => {
    let visits = 0;
    const elsewhere = await answering((_, response) => {
      visits += 1;
      response.end();
    });
    const here = await answering((_, response) => response.writeHead(307, { location: elsewhere.url }).end());
    const response = await fencedFetch(NOW)(here.url, POST);
    expect([response.status, response.headers.get('location'), visits]).toEqual([307, elsewhere.url, 0]);
    const following = fencedFetch(NOW)(here.url, { ...POST, redirect: 'follow' });
    await expect(following).rejects.toMatchObject({ code: 'invalid-option' });
  });

  it.each([
    [200, 'text/plain', '{"code":"stale-token"}'],
    [412, 'application/json', '{"type":"urn:lockkeeper:guard:stale-token","code":"stale-token"}'],
    [412, 'application/problem+json', '{"type":"about:blank","code":"stale-token"}'],
    [412, 'application/problem+json', '{"type":"urn:lockkeeper:guard:toString","code":"toString"}'],
    [500, 'application/problem+json', '{"type":"urn:lockkeeper:guard:stale-token","code":"stale-token"}'],
    [500, 'text/html', 'oops'],
    [404, 'text/html', 'where?'],
  ])("is answered by the service itself: %i %s %s is the caller's", async (status, type, text) => {
    const service = await answering((_, response) =>
      response.writeHead(status, { 'content-type': type }).end(text),
    );
    const response = await fencedFetch(NOW)(service.url, POST);
    expect([response.status, await response.text()]).toEqual([status, text]);
  });

  it.each([502, 504])('answered %i by a gateway is unknown', async (status) => {
    const gateway = await answering((_, response) => response.writeHead(status).end());
    await expect(fencedFetch(NOW)(gateway.url, POST)).rejects.toMatchObject(unknown);
  });

  it('keeps what the caller sent with it, and refuses a token of his own', async () => {
    const echo = await answering((request, response) => {
      const { 'x-mine': mine, 'fencing-token': sent } = request.headers;
      response.end(JSON.stringify({ method: request.method, mine, sent }));
    });
    const request = new Request(echo.url, { method: 'PATCH', headers: { 'x-mine': '1' } });
    const seen = await fencedFetch(NOW)(request).then((response) => response.json());
    expect(seen).toEqual({ method: 'PATCH', mine: '1', sent: `${NOW}` });
    const own = fencedFetch(NOW)(echo.url, { headers: { 'FENCING-token': `${NEXT}` } });
    await expect(own).rejects.toMatchObject({ code: 'invalid-option' });
    for (const url of ['/relative', 'http://user:password@localhost/', 'ftp://localhost/', 'data:,x']) {
      const refused = fencedFetch(NOW)(url);
      await expect(refused).rejects.toMatchObject({ code: 'invalid-option' });
      await expect(refused).rejects.not.toThrow('password@');
    }
    expect(() => fencedFetch('main:5:a5' as never)).toThrow(
      expect.objectContaining({ code: 'invalid-token' }),
    );
  });
});

describe('the guard of a service', () => {
  let endpoint: App;
  let through: TcpProxy;
  let remote: Guard<typeof fetch> & GuardAdmin;
  beforeEach(async () => {
    const listener = fencingEndpoint({ guard });
    endpoint = await answering((request, response) => void listener(request, response));
    through = opened(await startTcpProxy(endpoint.url));
    remote = httpGuard(`${through.url}/fencing`, { resource: 'invoices' });
  });

  /** The next question is carried out; instead of the answer comes the end of the connection. */
  function loseAnswer(verb: string): void {
    void through.loseReply({ match: chunkContaining(`/${verb}`) }).lost.then(
      () => through.cut(),
      () => {},
    );
  }

  it('claims and seals with a hold, over a lost answer; what nobody granted gets nowhere', async () => {
    await using keeper = await connect({ coordinator: memoryCoordinator() });
    const kept = memoryGuard({ resource: 'orders' });
    const served = verifiedGuard(kept, keeper.tokenVerifier('orders'));
    const listener = fencingEndpoint({ guard: served });
    const service = await answering((request, response) => void listener(request, response));
    through = opened(await startTcpProxy(service.url));
    const orders = httpGuard(through.url, { resource: 'orders' });
    await expect(orders.claim(NEXT)).rejects.toMatchObject({ code: 'unverified', outcome: 'rejected' });
    expect(await kept.inspect()).toBeUndefined();
    loseAnswer('claim');
    const hold = await keeper.lock('orders').acquire({ claims: [orders] });
    expect(await kept.inspect()).toEqual({ token: hold.token, sealed: false });
    const forged = new FencingToken({ ...hold.token, revision: hold.token.revision + 1n });
    await expect(orders.run(forged, () => {})).rejects.toMatchObject({
      code: 'unverified',
      resource: 'orders',
    });
    expect(await hold.release()).toEqual({ outcome: 'released', sealed: true });
    expect(await kept.inspect()).toEqual({ token: hold.token, sealed: true });
  });

  it.each(['claim', 'seal'] as const)(
    '%s: a lost answer is unknown, nobody there is unavailable',
    async (verb) => {
      loseAnswer(verb);
      await expect(remote[verb](NEXT)).rejects.toMatchObject({
        ...unknown,
        resource: 'invoices',
        token: NEXT,
      });
      expect(await guard.inspect()).toEqual({ token: NEXT, sealed: verb === 'seal' });
      await endpoint[Symbol.asyncDispose]();
      const direct = httpGuard(endpoint.url, { resource: 'invoices' });
      await expect(direct[verb](NEXT)).rejects.toMatchObject({ code: 'unavailable', resource: 'invoices' });
    },
  );

  it('tells a claim from a first run, where a token has to claim', async () => {
    const listener = fencingEndpoint({ guard: memoryGuard({ resource: 'strict', requireClaim: true }) });
    const service = await answering((request, response) => void listener(request, response));
    const strict = httpGuard(service.url, { resource: 'strict' });
    await expect(strict.run(NOW, () => 'ran')).rejects.toMatchObject({ code: 'unclaimed' });
    await strict.claim(NOW);
    expect(await strict.run(NOW, () => 'ran')).toBe('ran');
    expect(await strict.run(NEXT, () => 'ran', { requireClaim: false })).toBe('ran');
    const lenient = httpGuard(`${through.url}/fencing`, { resource: 'invoices', requireClaim: true });
    await expect(lenient.run(NEXT, () => 'ran')).rejects.toMatchObject({ code: 'unclaimed' });
  });

  it('a run whose check is lost has not run', async () => {
    let ran = false;
    const run = () =>
      remote.run(NOW, () => {
        ran = true;
      });
    loseAnswer('check');
    await expect(run()).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    remote = httpGuard(through.url, { resource: 'invoices', timeoutMs: 50 });
    using _silence = through.blackhole();
    await expect(run()).rejects.toMatchObject({ code: 'timeout', outcome: 'failed' });
    await expect(remote.claim(NOW)).rejects.toMatchObject(unknown);
    expect(ran).toBe(false);
  });

  it('a signal that aborts inside an effect: unknown once it has sent something', async () => {
    const reason = new Error('no longer wanted');
    for (const sends of [false, true]) {
      const stop = new AbortController();
      const run = remote.run(
        NOW,
        async (send) => {
          if (sends) await send(`${app.url}/invoices/append`, POST);
          stop.abort(reason);
          await new Promise(() => {});
        },
        { signal: stop.signal },
      );
      if (sends) await expect(run).rejects.toMatchObject({ ...unknown, cause: reason });
      else await expect(run).rejects.toBe(reason);
    }
  });

  it('a handle ends with its run', async () => {
    const kept = await remote.run(NOW, (send) => send);
    await expect(kept(`${app.url}/invoices/append`, POST)).rejects.toMatchObject({ code: 'invalid-option' });
    expect(desk.handled).toBe(0);
  });

  it('inspect and rebase are for operators: not served unless asked for', async () => {
    const foreign = new FencingToken({ ...NEXT, lineage: 'restored' });
    await expect(remote.inspect()).rejects.toMatchObject({ code: 'unavailable' });
    await expect(remote.rebase(foreign, { from: NOW })).rejects.toMatchObject({ code: 'unavailable' });
    expect(await guard.inspect()).toEqual({ token: NOW, sealed: false });
  });

  it.each([
    ['says yes to everything', 200, '{"ok":true}', 'unavailable'],
    [
      'answers for another resource',
      200,
      `{"verb":"claim","resource":"orders","token":"${NEXT}"}`,
      'unavailable',
    ],
    [
      'answers for another token',
      200,
      `{"verb":"claim","resource":"invoices","token":"${NOW}"}`,
      'unavailable',
    ],
    ['answers another verb', 200, `{"verb":"seal","resource":"invoices","token":"${NEXT}"}`, 'unavailable'],
    ['knows no such place', 404, 'where?', 'unavailable'],
    ['broke', 500, 'oops', 'unknown'],
    ['stands behind a gateway that found nobody', 502, '', 'unknown'],
  ])('nothing is promised by a server that %s', async (_, status, text, code) => {
    const server = await answering((_request, response) => response.writeHead(status).end(text));
    const call = httpGuard(server.url, { resource: 'invoices' }).claim(NEXT);
    await expect(call).rejects.toMatchObject({ code, resource: 'invoices' });
  });

  it('is asked by the right method, under a token', async () => {
    const status = async (path: string, init?: RequestInit) =>
      (await fetch(endpoint.url + path, init)).status;
    expect(await status('/claim')).toBe(405);
    expect(await status('/claim', { method: 'PUT' })).toBe(428);
    expect(await status('/claim', { method: 'PUT', headers: { 'Fencing-Token': 'x' } })).toBe(400);
    const headers = { 'Fencing-Token': `${NEXT}` };
    expect(await status('/check?requireClaim=TRUE', { method: 'PUT', headers })).toBe(400);
    expect(await status('/toString', { method: 'PUT' })).toBe(404);
    expect(await status('/state')).toBe(404);
    expect(await status('//')).toBe(404);
    expect(await guard.inspect()).toEqual({ token: NOW, sealed: false });
  });

  it('bad options are refused by name', () => {
    const made: readonly [string, () => unknown][] = [
      ['url is "here"', () => httpGuard('here', { resource: 'r' })],
      ['url is "ftp://x/"', () => httpGuard('ftp://x/', { resource: 'r' })],
      ['url is "http://x/"; expected none with user', () => httpGuard('http://u:p@x/', { resource: 'r' })],
      ['url is "http://x/?a"', () => httpGuard('http://x/?a', { resource: 'r' })],
      ['resource is undefined', () => httpGuard('http://x/', undefined as never)],
      ['timeoutMs is 0', () => httpGuard('http://x/', { resource: 'r', timeoutMs: 0 })],
      ['requireClaim is "no"', () => httpGuard('http://x/', { resource: 'r', requireClaim: 'no' as never })],
      ['headers is', () => httpGuard('http://x/', { resource: 'r', headers: { 'a b': 'c' } })],
      ['fetch is 7', () => httpGuard('http://x/', { resource: 'r', fetch: 7 as never })],
      ['fetch is 7', () => fencedFetch(NOW, { fetch: 7 as never })],
    ];
    for (const [message, make] of made) {
      const refusal = { code: 'invalid-option', message: expect.stringContaining(message) };
      expect(make).toThrow(expect.objectContaining(refusal));
    }
  });
});
