import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TestkitError } from './errors.ts';
import { environmentOf, findPrograms, type ServerProgram } from './find-programs.ts';
import { chooseVersion } from './find-server.ts';
import { identity } from './identity.ts';
import type { OwnedServerPlan, TestServer } from './owned-server.ts';
import type { PostgresServer } from './postgres-server.ts';
import { ServerProcess } from './server-process.ts';
import { checkSettings, ownedVerbs, startOwned } from './start-owned.ts';

export interface PgBouncerOptions {
  /** The server that it lends connections of: one that {@link startPostgres} returned, or an address like it. */
  readonly postgres: Pick<PostgresServer, 'host' | 'port' | 'user' | 'password' | 'database'>;
  /** What a client keeps its connection of the pool for. Default `transaction`, which is what bites. */
  readonly poolMode?: 'session' | 'transaction' | 'statement' | undefined;
  /** `oldest` or `newest` in reach, or an exact version such as `1.18.0`. Default: the first that is found. */
  readonly version?: 'newest' | 'oldest' | (string & {}) | undefined;
  /** Lines of its section `[pgbouncer]`, such as `{ default_pool_size: '2' }`. They win over the defaults. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

/** A running PgBouncer, which takes the same user and password as the PostgreSQL behind it. */
export interface PgBouncerServer extends TestServer {
  /** `postgres://user:password@127.0.0.1:port/database`, the same over restarts. */
  readonly url: string;
  /** Its own console, the database `pgbouncer`: `SHOW POOLS`, `PAUSE`, `KILL`. Takes only simple queries. */
  readonly consoleUrl: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const READY_WITHIN_MS = 30_000;
const CONSOLE = 'pgbouncer';
/** What keeps the server where the testkit finds it, and its log readable. */
const OURS = [
  'listen-addr',
  'listen-port',
  'unix-socket-dir',
  'logfile',
  'pidfile',
  'auth-file',
  'pool-mode',
];

/**
 * Starts a PgBouncer on loopback in front of a PostgreSQL, on a free port, and resolves when it takes connections.
 * Found in this order, which `LOCKKEEPER_SERVERS=path|unpacked` narrows to one: `pgbouncer` on PATH or in
 * /usr/sbin, the set-up's cache.
 *
 * It outlives neither `stop()` nor this process, in whatever way that ends; the PostgreSQL is not touched by it.
 * @throws {@link TestkitError} `no-server`, `start-failed`, `invalid-option`
 */
export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncerServer> {
  const { postgres, poolMode = 'transaction' } = options;
  if (!['session', 'transaction', 'statement'].includes(poolMode)) {
    const expected = 'expected session, transaction or statement';
    throw new TestkitError('invalid-option', `poolMode is "${poolMode}"; ${expected}`);
  }
  const settings = {
    max_client_conn: '1000',
    default_pool_size: '20',
    // What drivers send at the start of a session and PgBouncer knows nothing of.
    ignore_startup_parameters: 'extra_float_digits,options',
    ...Object.fromEntries(checkSettings(options.settings, OURS)),
    pool_mode: poolMode,
  };
  const program = chooseVersion('PgBouncer', findPrograms('PgBouncer'), options.version);
  const { port, owned } = await startOwned('lockkeeper-pgbouncer-', (folder, port) =>
    ownPlan(program, folder, (dataDir) => configuration(postgres, settings, port, dataDir), postgres),
  );
  const { user, password, database } = postgres;
  const url = (name: string) =>
    `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@127.0.0.1:${port}/${encodeURIComponent(name)}`;
  const ours = { url: url(database), consoleUrl: url(CONSOLE), host: '127.0.0.1', port };
  return Object.assign(ownedVerbs(program, owned), { ...ours, user, password, database });
}

function ownPlan(
  program: ServerProgram,
  folder: string,
  configurationIn: (dataDir: string) => string,
  { user, password }: PgBouncerOptions['postgres'],
): OwnedServerPlan {
  const name = `PgBouncer ${program.version}`;
  const dataDir = join(folder, 'data');
  const endSignal = 'SIGKILL';
  const launch = async () => {
    const { prefix, uid } = identity();
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const file = join(dataDir, 'pgbouncer.ini');
    const users = `${quoted(user)} ${quoted(password)}\n`;
    await writeFile(file, configurationIn(dataDir), { mode: 0o600 });
    await writeFile(join(dataDir, 'users'), users, { mode: 0o600 });
    const theirs = [folder, dataDir, file, join(dataDir, 'users')];
    if (uid !== undefined) for (const path of theirs) await chown(path, uid, uid);
    const [command = program.bin, ...args] = [...prefix, program.bin, file];
    const run = new ServerProcess({
      ...{ name, command, args, env: environmentOf(program), cwd: folder, uid, endSignal },
    });
    try {
      await run.waitUntil((log) => log.includes('process up'), READY_WITHIN_MS);
      return run;
    } catch (error) {
      await run.end(endSignal);
      throw error;
    }
  };
  return { name, dataDir, endSignal, launch };
}

function configuration(
  postgres: PgBouncerOptions['postgres'],
  settings: Readonly<Record<string, string>>,
  port: number,
  dataDir: string,
): string {
  // A host that is a folder holds a Unix socket, which it reads the same way.
  const ours = {
    ...{ listen_addr: '127.0.0.1', listen_port: `${port}`, unix_socket_dir: '' },
    ...{ auth_type: 'scram-sha-256', auth_file: join(dataDir, 'users'), admin_users: postgres.user },
  };
  return [
    '[databases]',
    `* = host=${postgres.host} port=${postgres.port}`,
    '[pgbouncer]',
    ...Object.entries({ ...ours, ...settings }).map(([name, value]) => `${name} = ${value}`),
    '',
  ].join('\n');
}

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
