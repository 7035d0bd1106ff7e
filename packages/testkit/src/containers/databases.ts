// PostgreSQL, Redis and MariaDB in containers, set up alike in the public images and in images that take the same
// variables.
import { randomBytes } from 'node:crypto';
import type { MariadbOptions, MariadbServer } from '../mariadb-server.ts';
import { probeMariadb } from '../mariadb-server-probe.ts';
import type { PostgresOptions, PostgresServer } from '../postgres-server.ts';
import { probePostgres } from '../postgres-server-probe.ts';
import type { RedisOptions, RedisServer } from '../redis-server.ts';
import { probeRedis } from '../redis-server-probe.ts';
import { ContainerServer } from './container-server.ts';
import type { Engine } from './engine.ts';
import { imageOf } from './route.ts';

const WHERE = 'the container';

export async function postgresInContainer(engine: Engine, options: PostgresOptions): Promise<PostgresServer> {
  const account = { user: 'postgres', password: randomBytes(12).toString('hex'), database: 'postgres' };
  const settings = { fsync: options.fsync === false ? 'off' : 'on', ...options.settings };
  const { host } = engine;
  const server = await ContainerServer.start(engine, {
    kind: 'postgres',
    container: (published) => ({
      kind: 'postgres',
      image: imageOf('postgres', options.container?.image, options.version),
      command: [
        'postgres',
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      env: { POSTGRES_PASSWORD: account.password },
      port: { inside: 5432, published },
      networks: options.container?.networks,
    }),
    ready: async (port) => {
      await probePostgres(WHERE, { host, port, ...account });
      return '';
    },
  });
  const version = await postgresVersion(server);
  const url = `postgres://${account.user}:${account.password}@${host}:${server.port}/${account.database}`;
  return Object.assign(server.verbs(), { version, url, host, port: server.port, ...account });
}

/** Whoever has no password is not told by the server itself. */
async function postgresVersion(server: ContainerServer): Promise<string> {
  const { stdout } = await server.container.exec(['postgres', '--version']);
  return /\) (\d+(?:\.\d+)*)/.exec(stdout)?.[1] ?? 'unknown';
}

export async function redisInContainer(
  engine: Engine,
  options: RedisOptions,
  settings: Readonly<Record<string, string>>,
): Promise<RedisServer> {
  const { host } = engine;
  const password = settings['requirepass'] ?? '';
  const server = await ContainerServer.start(engine, {
    kind: 'redis',
    container: (published) => ({
      kind: 'redis',
      image: imageOf('redis', options.container?.image, options.version),
      command: [
        'redis-server',
        ...Object.entries({ 'protected-mode': 'no', ...settings }).flatMap(([name, value]) => [
          `--${name}`,
          value === '""' ? '' : value,
        ]),
      ],
      port: { inside: 6379, published },
      networks: options.container?.networks,
    }),
    ready: async (port) => (await probeRedis(WHERE, { host, port, user: '', password })) ?? 'unknown',
  });
  const login = password ? `:${encodeURIComponent(password)}@` : '';
  const url = `redis://${login}${host}:${server.port}`;
  return Object.assign(server.verbs(), { url, host, port: server.port });
}

export async function mariadbInContainer(
  engine: Engine,
  options: MariadbOptions,
  settings: Readonly<Record<string, string>>,
): Promise<MariadbServer> {
  const account = { user: 'root', password: randomBytes(12).toString('hex'), database: 'lockkeeper' };
  const { host } = engine;
  const server = await ContainerServer.start(engine, {
    kind: 'mariadb',
    container: (published) => ({
      kind: 'mariadb',
      image: imageOf('mariadb', options.container?.image, options.version),
      command: [
        'mariadbd',
        ...['--innodb-flush-log-at-trx-commit=1', '--skip-log-bin', '--skip-name-resolve'],
        ...Object.entries(settings).map(([name, value]) =>
          value === '' ? `--${name}` : `--${name}=${value}`,
        ),
      ],
      env: { MARIADB_ROOT_PASSWORD: account.password, MARIADB_DATABASE: account.database },
      port: { inside: 3306, published },
      networks: options.container?.networks,
    }),
    ready: (port) => probeMariadb(WHERE, { host, port, ...account }),
  });
  const url = `mysql://${account.user}:${account.password}@${host}:${server.port}/${account.database}`;
  return Object.assign(server.verbs(), { url, host, port: server.port, ...account });
}
