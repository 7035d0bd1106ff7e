import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { findPostgreses } from './find-server.ts';
import { type PostgresServer, startPostgres } from './postgres-server.ts';
import { processState } from './process-table.ts';

const versions = [...new Set(findPostgreses().map(({ version }) => version))];

describe.skipIf(process.platform !== 'linux').each(versions)(
  'PostgreSQL %s',
  { timeout: 120_000 },
  (version) => {
    let server: PostgresServer | undefined;
    afterEach(() => server?.stop());

    async function query(text: string): Promise<unknown[]> {
      const client = new pg.Client(server?.url);
      client.on('error', () => {});
      await client.connect();
      try {
        return (await client.query({ text, rowMode: 'array' })).rows.flat();
      } finally {
        await client.end();
      }
    }

    it('starts, freezes with its backends, survives a kill with its data, and is stopped', async () => {
      server = await startPostgres({ version });
      expect(await query('SHOW server_version')).toEqual([expect.stringMatching(`^${version}\\b`)]);
      expect(await query('SHOW fsync')).toEqual(['on']);
      await query('CREATE TABLE kept AS SELECT 7 AS n');

      const client = new pg.Client(server.url);
      client.on('error', () => {});
      await client.connect();
      await server.pause();
      const outcome = client.query('SELECT 1').then(() => 'answered');
      const silence = new Promise((resolve) => setTimeout(resolve, 200, 'silence'));
      expect(await Promise.race([outcome, silence])).toBe('silence');
      server.resume();
      expect(await outcome).toBe('answered');

      const backend = (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid as number;
      await server.kill();
      expect(processState(backend)).toBe('gone');
      await server.restart();
      expect(await query('SELECT n FROM kept')).toEqual([7]);
      await server.restart({ wipe: true });
      expect(await query("SELECT to_regclass('kept')")).toEqual([null]);

      const segment = segmentOf(server.pid);
      await server.kill();
      expect(sharedMemory()).toContain(segment);
      await server.stop();
      expect(sharedMemory()).not.toContain(segment);
    });

    it('takes settings, and turns fsync off only when told', async () => {
      server = await startPostgres({ version, fsync: false, settings: { max_connections: '7' } });
      expect(await query('SHOW fsync')).toEqual(['off']);
      expect(await query('SHOW max_connections')).toEqual(['7']);
    });
  },
);

describe('finding a PostgreSQL', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('uses the address in the environment, which it cannot stop', async () => {
    await using started = await startPostgres({ own: true });
    vi.stubEnv('POSTGRES_URL', started.url.replace(started.password, 's%40fe').replace(/postgres$/, 'data'));
    const found = await startPostgres();
    expect(found).toMatchObject({
      route: 'env',
      host: '127.0.0.1',
      port: started.port,
      user: 'postgres',
      password: 's@fe',
      database: 'data',
      version: 'unknown',
    });
    await expect(found.kill()).rejects.toMatchObject({ code: 'not-ours' });
    await started.pause();
    await expect(startPostgres()).rejects.toMatchObject({ code: 'no-server', message: /no answer within/ });
    started.resume();
    await started.kill();
    await expect(startPostgres()).rejects.toMatchObject({
      code: 'no-server',
      message: expect.stringMatching(`POSTGRES_URL names 127.0.0.1:${started.port}.*ECONNREFUSED`),
    });
  }, 60_000);

  it.each([
    ['mysql://h/x', 'POSTGRES_URL has the scheme "mysql:"; expected postgres://'],
    ['localhost:5432/x', 'POSTGRES_URL has the scheme "localhost:"; expected postgres://'],
    ['//me:secret@host', 'POSTGRES_URL is "//me:…@host"; expected postgres://'],
  ])('refuses the address %s by name', async (address, message) => {
    vi.stubEnv('POSTGRES_URL', address);
    await expect(startPostgres()).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringContaining(message),
    });
  });

  it('says what to do where there is none', async () => {
    vi.stubEnv('LOCKKEEPER_SERVERS', 'unpacked');
    vi.stubEnv('LOCKKEEPER_SERVER_CACHE', '/nonexistent');
    await expect(startPostgres()).rejects.toThrow(/POSTGRES_URL.*PostgreSQL 13.*apt install postgresql/);
  });
});

/** The id of the System V segment that the server notes in its data folder. */
function segmentOf(pid: number | undefined): string | undefined {
  return readFileSync(`/proc/${pid}/cwd/postmaster.pid`, 'utf8').split('\n')[6]?.trim().split(/\s+/)[1];
}

function sharedMemory(): (string | undefined)[] {
  const lines = readFileSync('/proc/sysvipc/shm', 'latin1').trim().split('\n').slice(1);
  return lines.map((line) => line.trim().split(/\s+/)[1]);
}
