// One small service in each framework: a list of entries per account, which its handler appends to through the
// fencing of its request, in the way that the URL asks for.
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type FencingToken, type Guard, GuardError } from '@lockkeeper/fencing';
import {
  expressFencing,
  expressFencingErrors,
  type Fencing,
  fastifyFencing,
  fastifyFencingErrors,
  fencingOf,
  withFencing,
} from '@lockkeeper/resource-guard/http';
import express from 'express';
import fastify, { type FastifyRequest } from 'fastify';

/** What the service keeps, and how often it was asked to. */
export class Desk {
  readonly entries: string[] = [];
  /** How often a handler began. */
  handled = 0;
  /** What a handler waits for after it has begun. */
  pause: () => Promise<void> = async () => {};
  readonly #guards = new Map<string, Guard<undefined>>();

  guard(guard: Guard<undefined>): void {
    this.#guards.set(guard.resource, guard);
  }

  guardOf(resource: string): Guard<undefined> {
    const guard = this.#guards.get(resource);
    if (guard === undefined) throw new Error(`no account ${resource}`);
    return guard;
  }

  /** `/<account>/<action>` */
  async handle(action: string, fencing: Fencing<undefined>): Promise<string> {
    this.handled += 1;
    const append = (entry: string) =>
      fencing.run(() => {
        this.entries.push(`${entry} ${fencing.token.acquisition}`);
      });
    if (action === 'throw') throw new Error('my own');
    if (action === 'throw-refusal') throw new GuardError('stale-token', 'of something else');
    if (action === 'effect-throws') {
      await fencing.run(() => {
        throw new GuardError('sealed', 'of something inside');
      });
    }
    if (action === 'twice') await append('first');
    await this.pause();
    await append(action);
    return 'done';
  }
}

export interface App extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string;
  readonly port: number;
}

/** Unknown errors are answered by 418 and their message, by the framework's own means. */
export type StartApp = (desk: Desk, options?: { readonly requireClaim?: boolean }) => Promise<App>;

export const startNodeApp: StartApp = async (desk, options) => {
  const listener = withFencing<undefined>(
    async (incoming, response, fencing) => {
      if (fencing === undefined) return void response.end('safe');
      response.end(await desk.handle(partOf(incoming.url, 2), fencing));
    },
    { ...options, guard: (incoming) => desk.guardOf(partOf(incoming.url, 1)) },
  );
  const server = createServer((incoming, response) => {
    listener(incoming, response).catch((error: Error) => {
      if (!response.headersSent) response.writeHead(418);
      response.end(error.message);
    });
  });
  return listen(server);
};

export const startExpressApp: StartApp = async (desk, options) => {
  const app = express();
  const guard = (incoming: express.Request) => desk.guardOf(String(incoming.params['account']));
  const fenced = expressFencing({ ...options, guard });
  app.get('/:account', fenced, (_, response) => void response.send('safe'));
  app.post('/:account/:action', fenced, async (incoming, response) => {
    response.send(await desk.handle(String(incoming.params['action']), fencingOf<undefined>(incoming)));
  });
  app.post('/:account/:action/open', async (incoming, response) => {
    response.send(await desk.handle(String(incoming.params['action']), fencingOf<undefined>(incoming)));
  });
  app.use(expressFencingErrors);
  app.use((error: Error, _: unknown, response: express.Response, _next: unknown) => {
    response.status(418).send(error.message);
  });
  return listen(createServer(app));
};

export const startFastifyApp: StartApp = async (desk, options) => {
  const app = fastify();
  app.setErrorHandler(async (error: Error, _, reply) => reply.code(418).send(error.message));
  await app.register((scope, _options, done) => {
    scope.setErrorHandler(fastifyFencingErrors);
    scope.addHook(
      'preHandler',
      fastifyFencing<FastifyRequest, undefined>({
        ...options,
        guard: (incoming) => desk.guardOf((incoming.params as { account: string }).account),
      }),
    );
    scope.get('/:account', async () => 'safe');
    scope.post('/:account/:action', async (incoming) =>
      desk.handle((incoming.params as { action: string }).action, fencingOf<undefined>(incoming)),
    );
    done();
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    [Symbol.asyncDispose]: async () => {
      app.server.closeAllConnections();
      await app.close();
    },
  };
};

export async function listen(server: Server): Promise<App> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** What a proxy does to one exchange: `pass` it on, `strip` the token, or `lose` the reply and answer 502. */
export type ProxyMood = 'pass' | 'strip' | 'lose';

/** An HTTP proxy, as stands before many services. */
export function startHttpProxy(target: App, mood: () => ProxyMood): Promise<App> {
  const forward = async (incoming: IncomingMessage, response: ServerResponse) => {
    const now = mood();
    const { 'fencing-token': token, ...rest } = incoming.headers;
    const headers = now === 'strip' || token === undefined ? rest : { ...rest, 'fencing-token': token };
    const body = await text(incoming);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const { method, url } = incoming;
      const onward = request(`${target.url}${url}`, { method, headers, agent: false }, resolve);
      onward.once('error', reject).end(body);
    });
    const reply = await text(answer);
    if (now === 'lose') response.writeHead(502).end('bad gateway');
    else response.writeHead(answer.statusCode ?? 500, answer.headers).end(reply);
  };
  return listen(
    createServer((incoming, response) => {
      forward(incoming, response).catch((error: Error) => response.destroy(error));
    }),
  );
}

/** Sends the lines of a request as they are, which no HTTP client would; resolves with the status. */
export async function sendRaw(app: App, headers: readonly string[]): Promise<number> {
  const socket = connect(app.port, '127.0.0.1');
  const lines = [
    'POST /invoices/append HTTP/1.1',
    'Host: x',
    'Content-Length: 0',
    'Connection: close',
    ...headers,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  return Number((await text(socket)).split(' ')[1]);
}

export function tokenHeader(token: FencingToken): Record<string, string> {
  return { 'Fencing-Token': `${token}` };
}

function partOf(url: string | undefined, index: number): string {
  return url?.split('/')[index] ?? '';
}
