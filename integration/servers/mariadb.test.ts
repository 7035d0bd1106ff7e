import { type MariadbServer, startMariadb } from '@lockkeeper/testkit';
import { type Connection, createConnection } from 'mysql2/promise';
import { afterEach, describe, expect, it, vi } from 'vitest';

const started: AsyncDisposable[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const each of started.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

const mariadb: typeof startMariadb = async (options) => {
  const server = await startMariadb(options);
  started.push(server);
  return server;
};

async function connect(server: MariadbServer): Promise<Connection> {
  const connection = await createConnection({ uri: server.url, rowsAsArray: true });
  connection.on('error', () => undefined);
  started.push({ [Symbol.asyncDispose]: async () => connection.destroy() });
  return connection;
}

/** The values of all columns of all rows. */
async function query(connection: Connection, text: string): Promise<unknown[]> {
  const [rows] = await connection.query<never>(text);
  return (rows as unknown[]).flat();
}

describe('a MariaDB of our own', () => {
  it('freezes, loses nothing by a kill, comes back at its address, and empty after a wipe', async () => {
    const server = await mariadb({ own: true });
    const connection = await connect(server);
    expect(await query(connection, 'SELECT @@version, @@innodb_flush_log_at_trx_commit, @@log_bin')).toEqual([
      expect.stringMatching(`^${server.version}-MariaDB`),
      ...[1, 0],
    ]);
    expect(await query(connection, 'SELECT DATABASE()')).toEqual([server.database]);
    await connection.query('CREATE TABLE kept (n BIGINT) ENGINE = InnoDB');
    await connection.query('INSERT INTO kept VALUES (7)');

    await server.pause();
    const outcome = query(connection, 'SELECT 1');
    const silence = new Promise((resolve) => setTimeout(resolve, 200, 'silence'));
    expect(await Promise.race([outcome, silence])).toBe('silence');
    server.resume();
    expect(await outcome).toEqual([1]);

    const { pid, url } = server;
    await server.kill();
    await expect(query(connection, 'SELECT 1')).rejects.toThrow();
    await server.restart();
    expect(server.pid).not.toBe(pid);
    expect(server.url).toBe(url);
    expect(await query(await connect(server), 'SELECT n FROM kept')).toEqual([7]);
    await server.restart({ wipe: true });
    expect(await query(await connect(server), 'SHOW TABLES')).toEqual([]);
    await server.stop();
    await expect(connect(server)).rejects.toThrow(/ECONNREFUSED/);
  });

  it('takes settings in either spelling, and lets nobody in but its user, who may do everything', async () => {
    const server = await mariadb({
      settings: { innodb_flush_log_at_trx_commit: '2', 'max-connections': '70' },
    });
    const connection = await connect(server);
    const settings = 'SELECT @@innodb_flush_log_at_trx_commit, @@max_connections';
    expect(await query(connection, settings)).toEqual([2, 70]);
    await connection.query('SET GLOBAL max_connections = 80');
    await connection.query('CREATE DATABASE another');
    await connection.query(`KILL ${(await connect(server)).threadId}`);
    // The other one owns views, and cannot sign in.
    const users = "SELECT User FROM mysql.global_priv WHERE NOT JSON_VALUE(Priv, '$.account_locked') <=> 1";
    expect(await query(connection, users)).toEqual([server.user]);
  });

  it('refuses a setting that is its own', async () => {
    await expect(mariadb({ settings: { log_error: 'x' } })).rejects.toMatchObject({
      code: 'invalid-option',
      message: 'settings.log_error is "x"; the testkit sets it itself',
    });
  });

  it('says why it does not start', async () => {
    await expect(mariadb({ settings: { innodb_strength: '3' } })).rejects.toMatchObject({
      code: 'start-failed',
      message: expect.stringMatching(/MariaDB .* ended .*innodb_strength/s),
    });
  });
});

describe('finding a MariaDB', () => {
  it('uses the address in the environment, which it cannot stop', async () => {
    const server = await mariadb({ own: true });
    vi.stubEnv('LOCKKEEPER_SERVERS', '');
    vi.stubEnv('MYSQL_URL', server.url.replace(server.password, 's%40fe').replace(/lockkeeper$/, 'data'));
    const found = await mariadb();
    const { version, host, port, user } = server;
    expect(found).toMatchObject({ route: 'env', version, host, port, user });
    expect(found).toMatchObject({ password: 's@fe', database: 'data' });
    await expect(found.kill()).rejects.toMatchObject({ code: 'not-ours' });
    await server.kill();
    await expect(mariadb()).rejects.toMatchObject({
      code: 'no-server',
      message: expect.stringMatching(`MYSQL_URL names 127.0.0.1:${port}.*ECONNREFUSED`),
    });
  });

  it('says what to do where there is none', async () => {
    vi.stubEnv('LOCKKEEPER_SERVERS', 'unpacked');
    vi.stubEnv('LOCKKEEPER_SERVER_CACHE', '/nonexistent');
    const failure = mariadb();
    await expect(failure).rejects.toThrow(
      /no MariaDB in reach.*MYSQL_URL.*10\.6.*apt install mariadb-server/,
    );
  });
});
