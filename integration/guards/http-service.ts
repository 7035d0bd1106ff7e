// A service that keeps accounts in PostgreSQL and takes requests under a token: the guard contract, the store of
// the matrix and the outcome tests are its clients.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Guard, GuardAdmin } from '@lockkeeper/fencing';
import { type Fetch, fencingEndpoint, withFencing } from '@lockkeeper/resource-guard/http';
import { type PostgresTransaction, postgresGuard } from '@lockkeeper/resource-guard/postgres';
import type pg from 'pg';
import { accountAccess } from './account.ts';

export interface AccountService extends AsyncDisposable {
  /** Ends with a slash; an account's guard is at `<url><name>/`, its text at `<url><name>/text`. */
  readonly url: string;
  readonly port: number;
}

/** @param pool - stays the caller's. */
export async function startAccountService(pool: pg.Pool, port = 0): Promise<AccountService> {
  const guards = new Map<string, Guard<PostgresTransaction> & GuardAdmin>();
  const guardOf = (request: IncomingMessage) => {
    const resource = accountOf(request);
    const guard = guards.get(resource) ?? postgresGuard(pool, { resource });
    guards.set(resource, guard);
    return guard;
  };
  const verbs = fencingEndpoint({ guard: guardOf, admin: true });
  const account = withFencing<PostgresTransaction>(
    async (request, response, fencing) => {
      const name = accountOf(request);
      if (fencing === undefined) return reply(response, await read(pool, name));
      const value = await text(request);
      await fencing.run((tx) => accountAccess(name).write(tx, value));
      reply(response, '');
    },
    { guard: guardOf },
  );
  /** The same overwrite without the guard, for comparison. */
  const plain = async (request: IncomingMessage, response: ServerResponse) => {
    await pool.query('UPDATE account SET value = $1 WHERE name = $2', [
      await text(request),
      accountOf(request),
    ]);
    reply(response, '');
  };
  const routes: Readonly<Record<string, typeof plain>> = { text: account, plain };
  const server = createServer((request, response) => {
    const route = routes[request.url?.split('/')[2] ?? ''] ?? verbs;
    route(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500);
      response.end(String(error));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: listening } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${listening}/`,
    port: listening,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** How an effect reaches its account: each a request of its own. */
export const accountOverHttp = {
  read: async (send: Fetch) => body(await send('text')),
  write: async (send: Fetch, value: string) => {
    await body(await send('text', { method: 'PUT', body: value }));
  },
};

/** @throws what a service says that should have answered. */
export async function body(response: Response): Promise<string> {
  const said = await response.text();
  if (response.ok) return said;
  throw new Error(`HTTP ${response.status}: ${said}`);
}

function accountOf(request: IncomingMessage): string {
  return decodeURIComponent(request.url?.split('/')[1] ?? '');
}

async function read(pool: pg.Pool, name: string): Promise<string> {
  const { rows } = await pool.query('SELECT value FROM account WHERE name = $1', [name]);
  return rows[0]?.value ?? '';
}

function reply(response: ServerResponse, value: string): void {
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(value);
}
