// Every route of LOCKKEEPER_SERVERS but `container`, which servers.test.ts goes: here, because whatever is tested beside an
// engine has unpacked programs of every server at hand, also on machines that have their own.
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { startEtcd, startMariadb, startPostgres, startRedis, type TestServer } from '@lockkeeper/testkit';
import { afterEach, expect, it, vi } from 'vitest';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

interface Servers {
  readonly etcd: Awaited<ReturnType<typeof startEtcd>>;
  readonly postgres: Awaited<ReturnType<typeof startPostgres>>;
  readonly redis: Awaited<ReturnType<typeof startRedis>>;
  readonly mariadb: Awaited<ReturnType<typeof startMariadb>>;
}

async function startAll(routes: string): Promise<Servers> {
  vi.stubEnv('LOCKKEEPER_SERVERS', routes);
  const keep = async <Server extends TestServer>(starting: Promise<Server>) => {
    const server = await starting;
    cleanUps.push(() => server.stop());
    return server;
  };
  return {
    etcd: await keep(startEtcd()),
    postgres: await keep(startPostgres()),
    redis: await keep(startRedis()),
    mariadb: await keep(startMariadb()),
  };
}

const routesOf = (servers: Servers) => Object.values(servers).map(({ route }) => route);

/** Programs that the set-up has unpacked, as if somebody had installed them. */
async function install(): Promise<{ readonly path: string; readonly libraries: string }> {
  const cache = process.env['LOCKKEEPER_SERVER_CACHE'] ?? '';
  const manifest = JSON.parse(readFileSync(join(cache, 'manifest.json'), 'utf8'));
  const path = await mkdtemp(join(tmpdir(), 'lockkeeper-path-'));
  cleanUps.push(() => rm(path, { recursive: true }));
  const [etcd, postgres, redis, mariadb] = ['etcd', 'postgres', 'redis', 'mariadb'].map(
    (name) => manifest[name][0],
  );
  const programs = [etcd.bin, etcd.ctl, redis.bin, mariadb.bin, `${postgres.binDir}/postgres`];
  for (const program of programs) await symlink(resolve(cache, program), join(path, basename(program)));
  return { path, libraries: [redis, mariadb].map(({ libDir }) => resolve(cache, libDir)).join(':') };
}

it('unpacked, and by their addresses', { timeout: 120_000 }, async () => {
  const servers = await startAll('unpacked');
  expect(routesOf(servers)).toEqual(['unpacked', 'unpacked', 'unpacked', 'unpacked']);
  vi.stubEnv('ETCD_ENDPOINTS', servers.etcd.endpoint);
  vi.stubEnv('POSTGRES_URL', servers.postgres.url);
  vi.stubEnv('REDIS_URL', servers.redis.url);
  vi.stubEnv('MYSQL_URL', servers.mariadb.url);
  const found = await startAll('env');
  expect(routesOf(found)).toEqual(['env', 'env', 'env', 'env']);
  expect(found.etcd.endpoint).toBe(servers.etcd.endpoint);
  // An address that the routes leave out is not used.
  expect((await startEtcd({ own: true }).catch((error) => error)).message).toMatch(/LOCKKEEPER_SERVERS=env/);
  expect(routesOf(await startAll('path,unpacked'))).not.toContain('env');
});

it('on PATH', { timeout: 120_000 }, async () => {
  const { path, libraries } = await install();
  vi.stubEnv('PATH', `${path}:${process.env['PATH']}`);
  vi.stubEnv('LD_LIBRARY_PATH', libraries);
  const servers = await startAll('path');
  expect(routesOf(servers)).toEqual(['path', 'path', 'path', 'path']);
  expect(await servers.etcd.ctl(['endpoint', 'health'])).toMatch(/is healthy/);
});

it('not in a container that the routes leave out', async () => {
  vi.stubEnv('LOCKKEEPER_SERVERS', 'path,unpacked');
  await expect(startEtcd({ container: {} })).rejects.toMatchObject({
    code: 'invalid-option',
    message: 'LOCKKEEPER_SERVERS is "path,unpacked", which excludes containers',
  });
});

it('not in a container with what no container can have', async () => {
  vi.stubEnv('LOCKKEEPER_SERVERS', 'container');
  await expect(startEtcd({ dataDir: '/somewhere' })).rejects.toMatchObject({
    code: 'invalid-option',
    message: 'a server in a container cannot have dataDir',
  });
});

it.skipIf(existsSync('/var/run/docker.sock'))('not in a container where no engine answers', async () => {
  vi.stubEnv('LOCKKEEPER_SERVERS', 'container');
  vi.stubEnv('DOCKER_HOST', 'unix:///nonexistent/docker.sock');
  await expect(startRedis()).rejects.toMatchObject({
    code: 'no-server',
    message: expect.stringMatching(/^nothing can run in a container here: no container engine answers/),
  });
});
