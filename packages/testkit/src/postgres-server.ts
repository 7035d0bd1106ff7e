import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { postgresInContainer } from './containers/databases.ts';
import { type ContainerOptions, containerRoute } from './containers/route.ts';
import { TestkitError } from './errors.ts';
import {
  addressFromEnvironment,
  chooseVersion,
  findPostgreses,
  type PostgresPrograms,
} from './find-server.ts';
import { type Identity, identity } from './identity.ts';
import { foreignServer, type TestServer } from './owned-server.ts';
import { probePostgres, readPostgresUrl } from './postgres-server-probe.ts';
import { ServerProcess } from './server-process.ts';
import type { ShiftedClock } from './shifted-clock.ts';
import { ownedVerbs, startOwned } from './start-owned.ts';

export interface PostgresOptions {
  /**
   * `oldest` or `newest` in reach, or an exact version such as `15.14`. Default: whatever the first
   * successful route has.
   */
  readonly version?: 'newest' | 'oldest' | (string & {}) | undefined;
  /** Insist on a server of our own, which can be paused and killed, even if POSTGRES_URL is set. */
  readonly own?: boolean | undefined;
  /** Whether a commit waits for the disk. Default `true`; without it, `kill()` may lose commits. */
  readonly fsync?: boolean | undefined;
  /** Server settings, such as `{ max_connections: '300' }`. Imply `own`. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Its wall clock, which the test can step: see `shiftedClock()`. Implies `own`. Default: the machine's. */
  readonly clock?: ShiftedClock | undefined;
  /** How it runs in a container. Given, it runs in one or not at all. Implies `own`. */
  readonly container?: ContainerOptions | undefined;
}

/** A running PostgreSQL with one superuser and the database `postgres`. */
export interface PostgresServer extends TestServer {
  /** `postgres://user:password@host:port/database`, the same over restarts. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /**
   * `unknown` where the server was found by POSTGRES_URL and tells it only to those who have signed in: ask it
   * by `SHOW server_version`.
   */
  readonly version: string;
}

const VARIABLE = 'POSTGRES_URL';
const READY_WITHIN_MS = 60_000;
const USER = 'postgres';

/**
 * Starts a PostgreSQL on loopback, with temporary data and a free port, and resolves when it takes
 * connections. Found in this order, which `LOCKKEEPER_SERVERS=env|container|path|unpacked` narrows to one: an address
 * in POSTGRES_URL (nothing is started then, and it cannot be paused or killed; it has to answer, but whether it
 * takes this user and password is not tried), a container where testcontainers is installed and an engine answers,
 * `postgres` on PATH or in /usr/lib/postgresql, the set-up's cache.
 *
 * The server ends with `stop()`, and by itself when this process ends, in whatever way. A wiped restart is
 * a new database cluster under the same address and password.
 * @throws {@link TestkitError} `no-server`, `start-failed`, `invalid-option`
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const anyVersion = options.version === undefined || ['newest', 'oldest'].includes(options.version);
  const owned = options.own || options.settings || options.clock || options.container || !anyVersion;
  const address = owned ? undefined : addressFromEnvironment(VARIABLE);
  if (address !== undefined) return foreignPostgres(address);
  const engine = await containerRoute(options.container, { clock: options.clock });
  if (engine !== undefined) return postgresInContainer(engine, options);
  return startOwn(chooseVersion('PostgreSQL', findPostgreses(), options.version), options);
}

async function startOwn(programs: PostgresPrograms, options: PostgresOptions): Promise<PostgresServer> {
  const password = randomBytes(12).toString('hex');
  const { port, owned } = await startOwned('lockkeeper-postgres-', (folder, port) => {
    const cluster = new Cluster(programs, options, folder, password);
    const { name, dataDir } = cluster;
    const launch = () => cluster.launch(port);
    return { name, dataDir, endSignal: 'SIGQUIT', launch, tidy: () => cluster.tidy() };
  });
  return Object.assign(ownedVerbs(programs, owned), {
    url: `postgres://${USER}:${password}@127.0.0.1:${port}/postgres`,
    host: '127.0.0.1',
    port,
    user: USER,
    password,
    database: 'postgres',
  });
}

/** The data of one server, created on the first launch and after a wipe. */
class Cluster {
  readonly name: string;
  readonly dataDir: string;
  readonly #programs: PostgresPrograms;
  readonly #options: PostgresOptions;
  readonly #folder: string;
  readonly #password: string;
  readonly #identity: Identity = identity();

  constructor(programs: PostgresPrograms, options: PostgresOptions, folder: string, password: string) {
    this.name = `PostgreSQL ${programs.version}`;
    this.dataDir = join(folder, 'data');
    this.#programs = programs;
    this.#options = options;
    this.#folder = folder;
    this.#password = password;
  }

  async launch(port: number): Promise<ServerProcess> {
    await this.#initialize();
    const settings = {
      listen_addresses: '127.0.0.1',
      port: `${port}`,
      unix_socket_directories: '',
      fsync: this.#options.fsync === false ? 'off' : 'on',
      logging_collector: 'off',
      ...this.#options.settings,
    };
    const { command, args } = this.#as('postgres', [
      ...['-D', this.dataDir],
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ]);
    const { uid } = this.#identity;
    const env = { ...this.#env(), ...this.#options.clock?.env };
    const common = { name: this.name, env, cwd: this.#folder, endSignal: 'SIGQUIT' as const };
    const run = new ServerProcess({ ...common, command, args, uid });
    try {
      await run.waitUntil((log) => log.includes('ready to accept connections'), READY_WITHIN_MS);
      return run;
    } catch (error) {
      await run.end('SIGQUIT');
      throw error;
    }
  }

  /** A killed server leaves a small segment of System V shared memory, which only a new start would find. */
  async tidy(): Promise<void> {
    const pidFile = await readFile(join(this.dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
    const segment = pidFile.split('\n')[6]?.trim().split(/\s+/)[1];
    if (segment === undefined) return;
    await promisify(execFile)('ipcrm', ['-m', segment]).catch((error: Error) => {
      process.emitWarning(`${this.name} left shared memory behind: ${error.message}`);
    });
  }

  async #initialize(): Promise<void> {
    const { uid } = this.#identity;
    await mkdir(this.dataDir, { recursive: true, mode: 0o700 });
    if (uid !== undefined) for (const path of [this.#folder, this.dataDir]) await chown(path, uid, uid);
    const passwordFile = join(this.#folder, 'password');
    await writeFile(passwordFile, this.#password, { mode: 0o600 });
    if (uid !== undefined) await chown(passwordFile, uid, uid);
    const { command, args } = this.#as('initdb', [
      ...['-D', this.dataDir, '--username', USER, '--pwfile', passwordFile, '--auth', 'scram-sha-256'],
      // Nothing here has to outlive a power cut between this and the first start.
      ...['--locale', 'C', '--encoding', 'UTF8', '--no-sync'],
    ]);
    const as = uid === undefined ? {} : { uid, gid: uid };
    try {
      await promisify(execFile)(command, args, { cwd: this.#folder, env: this.#env(), ...as });
    } catch (cause) {
      const { stderr, message } = cause as Error & { stderr?: string };
      const why = stderr?.trim() || message;
      // A second launch of the same data finds them there.
      if (why.includes('exists but is not empty')) return;
      throw new TestkitError('start-failed', `initdb of ${this.name} failed: ${why}`, { cause });
    } finally {
      await rm(passwordFile, { force: true });
    }
  }

  #as(program: string, args: readonly string[]): { command: string; args: string[] } {
    const [command, ...rest] = [...this.#identity.prefix, join(this.#programs.binDir, program), ...args];
    return { command: command as string, args: rest };
  }

  #env(): NodeJS.ProcessEnv {
    const { libDir } = this.#programs;
    // Variables meant for another PostgreSQL must not configure this one.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PG')));
    if (libDir === undefined) return { ...env, LC_ALL: 'C' };
    const paths = [libDir, process.env['LD_LIBRARY_PATH']].filter(Boolean).join(delimiter);
    return { ...env, LC_ALL: 'C', LD_LIBRARY_PATH: paths };
  }
}

async function foreignPostgres(text: string): Promise<PostgresServer> {
  const address = readPostgresUrl(VARIABLE, text);
  const version = (await probePostgres(VARIABLE, address)) ?? 'unknown';
  return {
    ...foreignServer('PostgreSQL', `${address.host}:${address.port}`, version),
    ...address,
    url: text,
  };
}
