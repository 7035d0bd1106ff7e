import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { redisInContainer } from './containers/databases.ts';
import { type ContainerOptions, containerRoute } from './containers/route.ts';
import { environmentOf, findPrograms, type ServerProgram } from './find-programs.ts';
import { addressFromEnvironment, chooseVersion } from './find-server.ts';
import { foreignServer, type OwnedServerPlan, type TestServer } from './owned-server.ts';
import { probeRedis, readRedisUrl } from './redis-server-probe.ts';
import { ServerProcess } from './server-process.ts';
import { checkSettings, ownedVerbs, startOwned } from './start-owned.ts';

export interface RedisOptions {
  /** `oldest` or `newest` in reach, or an exact version such as `7.0.15`. Default: the first that is found. */
  readonly version?: 'newest' | 'oldest' | (string & {}) | undefined;
  /** Insist on a server of our own, which can be paused and killed, even if REDIS_URL is set. */
  readonly own?: boolean | undefined;
  /**
   * Lines of redis.conf, such as `{ maxmemory: '3mb' }`, or `{ replicaof: '127.0.0.1 20123' }` for a replica of
   * another one. They win over the defaults (see {@link startRedis}). Imply `own`.
   */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** How it runs in a container. Given, it runs in one or not at all. Implies `own`. */
  readonly container?: ContainerOptions | undefined;
}

/** A running Redis. */
export interface RedisServer extends TestServer {
  /** `redis://127.0.0.1:<port>`, with a password where `requirepass` was set; the same over restarts. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** `unknown` where the server was found by REDIS_URL and tells it only to users with more rights. */
  readonly version: string;
}

const VARIABLE = 'REDIS_URL';
const READY_WITHIN_MS = 30_000;
/** What keeps the server where the testkit finds it, and its log readable. */
const OURS = ['port', 'bind', 'dir', 'daemonize', 'logfile', 'loglevel', 'pidfile', 'tls-port', 'include'];

/** A write is on the disk before it is answered, and none is forgotten for want of memory. */
const DEFAULTS = {
  appendonly: 'yes',
  appendfsync: 'always',
  save: '""',
  'maxmemory-policy': 'noeviction',
  // It would wait 5 s for further replicas that might come.
  'repl-diskless-sync-delay': '0',
} as const;

/**
 * Starts a Redis on loopback, with temporary data and a free port, and resolves when it takes commands. Found in
 * this order, which `LOCKKEEPER_SERVERS=env|container|path|unpacked` narrows to one: an address in REDIS_URL (nothing
 * is started then, and it cannot be paused or killed), a container where testcontainers is installed and an engine
 * answers, `redis-server` on PATH, the set-up's cache.
 *
 * By default it is as durable as Redis can be: `appendonly yes`, `appendfsync always`, no snapshots, and
 * `maxmemory-policy noeviction`; so `kill()` loses nothing that was answered.
 *
 * The server ends with `stop()`, and by itself when this process ends, in whatever way.
 * @throws {@link TestkitError} `no-server`, `start-failed`, `invalid-option`
 */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const settings = checkSettings(options.settings, OURS);
  const anyVersion = options.version === undefined || ['newest', 'oldest'].includes(options.version);
  const { container } = options;
  const own = options.own || options.settings !== undefined || container !== undefined || !anyVersion;
  const address = own ? undefined : addressFromEnvironment(VARIABLE);
  if (address !== undefined) return foreignRedis(address);
  const lines = { ...DEFAULTS, ...Object.fromEntries(settings) };
  const engine = await containerRoute(container, {});
  if (engine !== undefined) return redisInContainer(engine, options, lines);
  const program = chooseVersion('Redis', findPrograms('Redis'), options.version);
  const { port, owned } = await startOwned('lockkeeper-redis-', (folder, port) =>
    ownPlan(program, lines, folder, port),
  );
  const password = options.settings?.['requirepass'];
  const login = password ? `:${encodeURIComponent(password)}@` : '';
  const url = `redis://${login}127.0.0.1:${port}`;
  return Object.assign(ownedVerbs(program, owned), { url, host: '127.0.0.1', port });
}

function ownPlan(
  program: ServerProgram,
  settings: Readonly<Record<string, string>>,
  folder: string,
  port: number,
): OwnedServerPlan {
  const name = `Redis ${program.version}`;
  const dataDir = join(folder, 'data');
  const endSignal = 'SIGKILL';
  const launch = async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const file = join(folder, 'redis.conf');
    const lines = Object.entries({ ...settings, bind: '127.0.0.1', port: `${port}`, dir: `"${dataDir}"` });
    // It may hold a password.
    await writeFile(file, lines.map((line) => `${line.join(' ')}\n`).join(''), { mode: 0o600 });
    const env = environmentOf(program);
    const run = new ServerProcess({
      ...{ name, command: program.bin, args: [file], env, cwd: folder, endSignal },
    });
    try {
      await run.waitUntil((log) => log.includes('Ready to accept connections'), READY_WITHIN_MS);
      return run;
    } catch (error) {
      await run.end(endSignal);
      throw error;
    }
  };
  return { name, dataDir, endSignal, launch };
}

async function foreignRedis(text: string): Promise<RedisServer> {
  const address = readRedisUrl(VARIABLE, text);
  const version = (await probeRedis(VARIABLE, address)) ?? 'unknown';
  const { host, port } = address;
  return { ...foreignServer('Redis', `${host}:${port}`, version), url: text, host, port };
}
