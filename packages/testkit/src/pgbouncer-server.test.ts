import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type PgBouncerServer, startPgBouncer } from './pgbouncer-server.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';

describe.skipIf(process.platform !== 'linux')('a PgBouncer', { timeout: 60_000 }, () => {
  let postgres: PostgresServer;
  let pool: PgBouncerServer | undefined;
  const clients: pg.Client[] = [];
  beforeAll(async () => {
    postgres = await startPostgres({ own: true });
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.end().catch(() => undefined);
    await pool?.stop();
  });
  afterAll(() => postgres.stop());

  async function connect(url: string | undefined): Promise<pg.Client> {
    const client = new pg.Client(url);
    client.on('error', () => undefined);
    clients.push(client);
    await client.connect();
    return client;
  }
  const backendOf = async (client: pg.Client) =>
    (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid as number;

  it('lends a connection for a transaction, comes back after a kill, and is stopped', async () => {
    pool = await startPgBouncer({ postgres, settings: { default_pool_size: '1' } });
    const [first, second] = [await connect(pool.url), await connect(pool.url)];
    expect(await backendOf(first)).toBe(await backendOf(second));
    const console = await connect(pool.consoleUrl);
    const { rows } = await console.query('SHOW CONFIG');
    expect(rows).toContainEqual(expect.objectContaining({ key: 'default_pool_size', value: '1' }));

    const { url } = pool;
    await pool.kill();
    await expect(first.query('SELECT 1')).rejects.toThrow();
    await pool.restart();
    expect(pool.url).toBe(url);
    await backendOf(await connect(pool.url));
    await pool.stop();
    await expect(connect(pool.url)).rejects.toThrow(/ECONNREFUSED/);
    await backendOf(await connect(postgres.url));
  });

  it('lends one for a session when told', async () => {
    pool = await startPgBouncer({ postgres, poolMode: 'session' });
    const [first, second] = [await connect(pool.url), await connect(pool.url)];
    expect(await backendOf(first)).not.toBe(await backendOf(second));
  });

  it('refuses another mode', async () => {
    const poolMode = 'forever' as 'session';
    await expect(startPgBouncer({ postgres, poolMode })).rejects.toMatchObject({
      code: 'invalid-option',
      message: 'poolMode is "forever"; expected session, transaction or statement',
    });
  });
});
