// Case D17 in each framework: whatever is wrong with a token, or with what carries it, no handler runs and
// nothing is written; and the client is told what it may rely on.
import { createServer } from 'node:http';
import { connect } from '@lockkeeper/core';
import { memoryCoordinator } from '@lockkeeper/core/memory';
import {
  FencingToken,
  type Guard,
  type GuardAdmin,
  GuardError,
  type GuardErrorCode,
} from '@lockkeeper/fencing';
import {
  expressFencing,
  fastifyFencing,
  fencedFetch,
  fencingEndpoint,
  verifiedGuard,
  withFencing,
} from '@lockkeeper/resource-guard/http';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type App,
  Desk,
  listen,
  type ProxyMood,
  type StartApp,
  sendRaw,
  startExpressApp,
  startFastifyApp,
  startHttpProxy,
  startNodeApp,
  tokenHeader,
} from './http-apps.ts';

const token = (revision: bigint, acquisition = `a${revision}`) =>
  new FencingToken({ lineage: 'main', revision, acquisition });
const [OLD, NOW, NEXT] = [token(4n), token(5n), token(6n)];

let desk: Desk;
let guard: Guard<undefined> & GuardAdmin;
const open: AsyncDisposable[] = [];

/** Closed when the test is over, last one first. */
function opened<T extends AsyncDisposable>(resource: T): T {
  open.push(resource);
  return resource;
}

beforeEach(async () => {
  desk = new Desk();
  guard = memoryGuard({ resource: 'invoices' });
  desk.guard(guard);
  await guard.claim(NOW);
});
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource[Symbol.asyncDispose]();
});

const FRAMEWORKS: readonly [string, StartApp][] = [
  ['node:http', startNodeApp],
  ['Express', startExpressApp],
  ['Fastify', startFastifyApp],
];

describe.each(FRAMEWORKS)('%s', (_, start) => {
  let app: App;
  beforeEach(async () => {
    app = opened(await start(desk));
  });

  const post = (headers: Record<string, string>, action = 'append', url = app.url) =>
    fetch(`${url}/invoices/${action}`, { method: 'POST', headers });
  const nothingHappened = async () => {
    expect(desk.handled).toBe(0);
    expect(desk.entries).toEqual([]);
    expect(await guard.inspect()).toEqual({ token: NOW, sealed: false });
  };

  it('runs the handler under a token in force, and under a newer one', async () => {
    const first = await post(tokenHeader(NOW));
    expect([first.status, await first.text()]).toEqual([200, 'done']);
    expect((await post(tokenHeader(NEXT))).status).toBe(200);
    expect(desk.entries).toEqual(['append a5', 'append a6']);
    expect(await guard.inspect()).toEqual({ token: NEXT, sealed: false });
  });

  it('asks for no token where the method is safe', async () => {
    const response = await fetch(`${app.url}/invoices`);
    expect([response.status, await response.text()]).toEqual([200, 'safe']);
  });

  it('stale: 412, and what is in force', async () => {
    const response = await post(tokenHeader(OLD));
    expect(response.status).toBe(412);
    expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json\b/);
    expect(await response.json()).toEqual({
      type: 'urn:lockkeeper:guard:stale-token',
      title: 'A newer token is in force',
      status: 412,
      detail: `guard "invoices" refused token ${OLD}: a newer token is in force (in force: ${NOW})`,
      code: 'stale-token',
      resource: 'invoices',
      token: `${OLD}`,
      current: `${NOW}`,
    });
    await nothingHappened();
  });

  it.each([
    ['another grant of the revision', token(5n, 'other'), 'conflicting-token'],
    ['another lineage', new FencingToken({ ...NEXT, lineage: 'other' }), 'foreign-lineage'],
  ])('%s: 412', async (_case, presented, code) => {
    const response = await post(tokenHeader(presented));
    expect([response.status, await codeOf(response)]).toEqual([412, code]);
    await nothingHappened();
  });

  it('sealed: 412; never claimed where it has to be: 412', async () => {
    const strict = opened(await start(desk, { requireClaim: true }));
    const unclaimed = await post(tokenHeader(NEXT), 'append', strict.url);
    expect([unclaimed.status, await codeOf(unclaimed)]).toEqual([412, 'unclaimed']);
    await nothingHappened();
    await guard.seal(NOW);
    const sealed = await post(tokenHeader(NOW));
    expect([sealed.status, await codeOf(sealed)]).toEqual([412, 'sealed']);
    expect(desk.handled).toBe(0);
  });

  it('missing: 428; malformed: 400', async () => {
    const missing = await post({});
    expect([missing.status, await codeOf(missing)]).toEqual([428, 'missing-token']);
    for (const value of [
      '',
      'x',
      '5',
      'main:5',
      'main:0x5:a5',
      'main:5:a5:x',
      'main:9223372036854775808:a5',
    ]) {
      const response = await post({ 'Fencing-Token': value });
      expect([value, response.status, await codeOf(response)]).toEqual([value, 400, 'invalid-token']);
    }
    await nothingHappened();
  });

  it('doubled: 400, on two lines or on one, the same token or another', async () => {
    const line = (presented: FencingToken, name = 'Fencing-Token') => `${name}: ${presented}`;
    expect(await sendRaw(app, [line(NOW, 'fEnCiNg-ToKeN')])).toBe(200);
    expect(desk.handled).toBe(1);
    desk.handled = 0;
    desk.entries.pop();
    for (const headers of [
      [line(NOW), line(NOW)],
      [line(NOW), line(OLD)],
      [line(OLD), 'X-Between: 1', line(NOW, 'FENCING-TOKEN')],
      [`${line(NOW)}, ${NOW}`],
      [line(NOW), 'Fencing-Token:'],
    ]) {
      expect([headers, await sendRaw(app, headers)]).toEqual([headers, 400]);
    }
    await nothingHappened();
  });

  it('a proxy that takes the header out: 428, and the client says where to look', async () => {
    const proxy = opened(await startHttpProxy(app, () => 'strip'));
    const call = fencedFetch(NOW)(`${proxy.url}/invoices/append`, { method: 'POST' });
    await expect(call).rejects.toMatchObject({
      code: 'invalid-token',
      outcome: 'failed',
      message: expect.stringContaining('something on the way takes it out'),
    });
    await nothingHappened();
  });

  it('the token of another lock is refused by a verifier, and by nothing else', async () => {
    await using keeper = await connect({ coordinator: memoryCoordinator() });
    const verified = verifiedGuard(memoryGuard({ resource: 'invoices' }), keeper.tokenVerifier('invoices'));
    desk.guard(verified);
    const own = await keeper.lock('invoices').acquire();
    const other = await keeper.lock('payments').acquire();
    const response = await post(tokenHeader(other.token));
    expect([response.status, await codeOf(response)]).toEqual([412, 'unverified']);
    expect([desk.handled, desk.entries]).toEqual([0, []]);
    expect(await verified.inspect()).toBeUndefined();
    expect((await post(tokenHeader(own.token))).status).toBe(200);
    // Without it the guard has only the number to go by.
    desk.guard(guard);
    const foreign = new FencingToken({ ...other.token, lineage: 'main', revision: 99n });
    expect((await post(tokenHeader(foreign))).status).toBe(200);
  });

  it('a retry after 502 is carried out again for the same holder, and refused after the next claim', async () => {
    const moods: ProxyMood[] = [];
    const proxy = opened(await startHttpProxy(app, () => moods.shift() ?? 'pass'));
    const call = () => fencedFetch(NOW)(`${proxy.url}/invoices/append`, { method: 'POST' });
    moods.push('lose');
    await expect(call()).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown' });
    expect(desk.entries).toEqual(['append a5']);
    // Fencing is not idempotency.
    expect((await call()).status).toBe(200);
    expect(desk.entries).toEqual(['append a5', 'append a5']);
    moods.push('lose');
    await expect(call()).rejects.toMatchObject({ code: 'unknown' });
    await guard.claim(NEXT);
    await expect(call()).rejects.toMatchObject({ code: 'stale-token', outcome: 'rejected', current: NEXT });
    expect(desk.handled).toBe(3);
    expect(desk.entries).toHaveLength(3);
  });

  it('superseded between the check and the write: the write is refused and answered so', async () => {
    const pause = pausable();
    const call = post(tokenHeader(NOW));
    await pause.reached;
    await guard.claim(NEXT);
    pause.letGo();
    const response = await call;
    expect([response.status, await codeOf(response)]).toEqual([412, 'stale-token']);
    expect([desk.handled, desk.entries]).toEqual([1, []]);
  });

  it('superseded after part of it was applied: unknown, never a refusal', async () => {
    const pause = pausable();
    const call = fencedFetch(NOW)(`${app.url}/invoices/twice`, { method: 'POST' });
    await pause.reached;
    await guard.claim(NEXT);
    pause.letGo();
    await expect(call).rejects.toMatchObject({
      code: 'unknown',
      message: 'part of the request was or may have been applied; then: stale-token',
    });
    expect(desk.entries).toEqual(['first a5']);
  });

  it('requests of one holder do not wait for each other', async () => {
    // A check that claimed would wait for the run around it.
    const status = await guard.run(NOW, async () => (await post(tokenHeader(NOW))).status);
    expect([status, desk.entries]).toEqual([200, ['append a5']]);
  });

  it.each([
    ['throw', 'my own'],
    ['throw-refusal', 'of something else'],
    ['effect-throws', 'of something inside'],
  ])("what a handler throws goes the framework's way: %s", async (action, message) => {
    const response = await post(tokenHeader(NOW), action);
    expect([response.status, await response.text()]).toEqual([418, message]);
  });

  it('what the choice of the guard throws goes that way too, and no handler runs', async () => {
    const response = await fetch(`${app.url}/nobody/append`, { method: 'POST', headers: tokenHeader(NOW) });
    expect([response.status, await response.text()]).toEqual([418, 'no account nobody']);
    expect(desk.handled).toBe(0);
  });

  /** Handlers wait after they have begun, until `letGo`. */
  function pausable() {
    const [reached, gate] = [deferred(), deferred()];
    desk.pause = () => {
      reached.resolve();
      return gate.promise;
    };
    return { reached: reached.promise, letGo: gate.resolve };
  }
});

it('a route that lost its middleware writes nothing', async () => {
  const app = opened(await startExpressApp(desk));
  const response = await fetch(`${app.url}/invoices/append/open`, {
    method: 'POST',
    headers: tokenHeader(NOW),
  });
  expect([response.status, await response.text()]).toEqual([
    418,
    'request is a IncomingMessage; no fencing middleware let it pass',
  ]);
  expect(desk.entries).toEqual([]);
});

describe('what a guard answers', () => {
  const ANSWERS: readonly [GuardErrorCode, number, GuardErrorCode][] = [
    ['stale-token', 412, 'stale-token'],
    ['sealed', 412, 'sealed'],
    ['conflicting-token', 412, 'conflicting-token'],
    ['foreign-lineage', 412, 'foreign-lineage'],
    ['unclaimed', 412, 'unclaimed'],
    ['unverified', 412, 'unverified'],
    ['retry', 409, 'retry'],
    ['unavailable', 503, 'unavailable'],
    ['timeout', 503, 'timeout'],
    ['not-migrated', 503, 'not-migrated'],
    ['unknown', 500, 'unknown'],
  ];

  it.each(ANSWERS)('%s arrives under %i as %s', async (code, status, arrives) => {
    const secret = 'connect to db-7.internal failed';
    let checked = false;
    // Lets the check pass, and fails the write.
    const failing: Guard<undefined> = {
      ...guard,
      resource: 'invoices',
      claim: (presented) => guard.claim(presented),
      seal: (presented) => guard.seal(presented),
      run: async (presented, effect, options) => {
        if (checked) throw new GuardError(code, secret, { resource: 'invoices', token: presented });
        checked = true;
        return guard.run(presented, effect, options);
      },
    };
    desk.guard(failing);
    const app = opened(await startNodeApp(desk));
    const response = await fetch(`${app.url}/invoices/append`, { method: 'POST', headers: tokenHeader(NOW) });
    expect(response.status).toBe(status);
    expect(response.headers.get('retry-after')).toBe(code === 'retry' ? '1' : null);
    if (status !== 412) expect(await response.text()).not.toContain(secret);
    checked = false;
    const call = fencedFetch(NOW)(`${app.url}/invoices/append`, { method: 'POST' });
    await expect(call).rejects.toMatchObject({ code: arrives, resource: 'invoices', token: NOW });
    expect(desk.entries).toEqual([]);
  });

  it('to the check before the handler, where nobody knows: unavailable, since no handler ran', async () => {
    const lost = new GuardError('unknown', 'reply lost');
    desk.guard(
      Object.assign(Object.create(guard) as Guard<undefined>, {
        resource: 'invoices',
        run: () => Promise.reject(lost),
      }),
    );
    const app = opened(await startNodeApp(desk));
    const call = fencedFetch(NOW)(`${app.url}/invoices/append`, { method: 'POST' });
    await expect(call).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    expect(desk.handled).toBe(0);
  });

  it('after the reply has begun cuts it off', async () => {
    const listener = withFencing<undefined>(
      async (_request, response, fencing) => {
        response.write('so far so good');
        await guard.claim(NEXT);
        await fencing?.run(() => {});
      },
      { guard },
    );
    const app = opened(await listen(createServer((request, response) => void listener(request, response))));
    const exchange = fencedFetch(NOW)(app.url, { method: 'POST' }).then((response) => response.text());
    await expect(exchange).rejects.toThrow();
  });
});

describe('where somebody else answered meanwhile', () => {
  /** A guard that answers when told, as one behind a row lock does. */
  function slowGuard() {
    const [reached, gate] = [deferred(), deferred()];
    const wait = async () => {
      reached.resolve();
      await gate.promise;
    };
    const slow: Guard<undefined> = {
      resource: guard.resource,
      claim: (...call) => wait().then(() => guard.claim(...call)),
      seal: (...call) => wait().then(() => guard.seal(...call)),
      run: (...call) => wait().then(() => guard.run(...call)),
    };
    return { slow, reached: reached.promise, letGo: gate.resolve };
  }

  it.each([OLD, NEXT])('that answer stays, and no error is left over (%s)', async (presented) => {
    const { slow, reached, letGo } = slowGuard();
    const served = fencingEndpoint({ guard: slow });
    const fenced = withFencing<undefined>((_, response) => void response.end(), { guard: slow });
    const express = expressFencing({ guard: slow });
    const unexpected: unknown[] = [];
    const unhandled = (error: unknown) => unexpected.push(error);
    const ended: Promise<unknown>[] = [];
    process.on('unhandledRejection', unhandled);
    try {
      const app = opened(
        await listen(
          createServer((request, response) => {
            if (request.url === '/express') {
              ended.push(new Promise<void>((resolve) => express(request, response, () => resolve())));
            } else {
              const listener = request.url === '/claim' ? served : fenced;
              ended.push(listener(request, response));
            }
            void reached.then(() => response.writeHead(503).end('too slow'));
          }),
        ),
      );
      for (const [path, method] of [
        ['claim', 'PUT'],
        ['node', 'POST'],
        ['express', 'POST'],
      ] as const) {
        const response = await fetch(`${app.url}/${path}`, { method, headers: tokenHeader(presented) });
        expect([response.status, await response.text()]).toEqual([503, 'too slow']);
      }
      letGo();
      // A refused middleware calls nobody.
      await Promise.all(presented === OLD ? ended.slice(0, 2) : ended);
      await new Promise((resolve) => setImmediate(resolve));
      expect(unexpected).toEqual([]);
    } finally {
      process.off('unhandledRejection', unhandled);
    }
  });
});

it('bad options are refused by name', () => {
  const handler = () => {};
  const made: readonly [string, () => unknown][] = [
    ['guard is undefined', () => withFencing(handler, undefined as never)],
    ['it lacks claim()', () => withFencing(handler, { guard: {} as never })],
    ['handler is "x"', () => withFencing('x' as never, { guard })],
    ['"get" is no method in capital letters', () => expressFencing({ guard, safeMethods: ['get'] })],
    ['safeMethods is "GET"', () => fastifyFencing({ guard, safeMethods: 'GET' as never })],
    ['requireClaim is 1', () => withFencing(handler, { guard, requireClaim: 1 as never })],
    ['guard is 7', () => fencingEndpoint({ guard: 7 as never })],
    ['admin is "yes"', () => fencingEndpoint({ guard, admin: 'yes' as never })],
    ['verify is undefined', () => verifiedGuard(guard, undefined as never)],
    ['guard is undefined', () => verifiedGuard(undefined as never, async () => {})],
  ];
  for (const [message, make] of made) {
    const refusal = { code: 'invalid-option', message: expect.stringContaining(message) };
    expect(make).toThrow(expect.objectContaining(refusal));
  }
});

async function codeOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { readonly code?: unknown }).code;
}

function deferred() {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve: () => resolve() };
}
