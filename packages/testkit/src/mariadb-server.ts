import { randomBytes } from 'node:crypto';
import { mariadbInContainer } from './containers/databases.ts';
import { type ContainerOptions, containerRoute } from './containers/route.ts';
import { findPrograms } from './find-programs.ts';
import { addressFromEnvironment, chooseVersion } from './find-server.ts';
import { MariadbData } from './mariadb-data.ts';
import { probeMariadb, readMariadbUrl } from './mariadb-server-probe.ts';
import { foreignServer, type TestServer } from './owned-server.ts';
import type { ShiftedClock } from './shifted-clock.ts';
import { checkSettings, ownedVerbs, startOwned } from './start-owned.ts';

export interface MariadbOptions {
  /** `oldest` or `newest` in reach, or an exact version such as `10.11.14`. Default: the first that is found. */
  readonly version?: 'newest' | 'oldest' | (string & {}) | undefined;
  /** Insist on a server of our own, which can be paused and killed, even if MYSQL_URL is set. */
  readonly own?: boolean | undefined;
  /** Server settings, such as `{ max_connections: '300' }`. They win over the defaults. Imply `own`. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  /** Its wall clock, which the test can step: see `shiftedClock()`. Implies `own`. Default: the machine's. */
  readonly clock?: ShiftedClock | undefined;
  /** How it runs in a container. Given, it runs in one or not at all. Implies `own`. */
  readonly container?: ContainerOptions | undefined;
}

/** A running MariaDB with an empty database and a user who may do everything. */
export interface MariadbServer extends TestServer {
  /** `mysql://user:password@host:port/database`, the same over restarts. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const VARIABLE = 'MYSQL_URL';
const NAME = 'lockkeeper';
/** What keeps the server where the testkit finds it, and its log readable. */
const OURS = [
  ...['port', 'bind-address', 'datadir', 'basedir', 'socket', 'log-error', 'pid-file', 'user', 'tmpdir'],
  ...['skip-networking', 'innodb-data-file-path', 'innodb-page-size'],
];

/**
 * Starts a MariaDB on loopback, with temporary data and a free port, and resolves when it takes connections. Found
 * in this order, which `LOCKKEEPER_SERVERS=env|container|path|unpacked` narrows to one: an address in MYSQL_URL
 * (nothing is started then, and it cannot be paused or killed; it has to answer, but whether it takes this user and
 * password is not tried), a container where testcontainers is installed and an engine answers, `mariadbd` on PATH or
 * in /usr/sbin, the set-up's cache.
 *
 * A commit waits for the disk (`innodb_flush_log_at_trx_commit=1`), so `kill()` loses none; there is no binary
 * log, and the caches are small.
 *
 * The server ends with `stop()`, and by itself when this process ends, in whatever way. A wiped restart is
 * a new server under the same address and password.
 * @throws {@link TestkitError} `no-server`, `start-failed`, `invalid-option`
 */
export async function startMariadb(options: MariadbOptions = {}): Promise<MariadbServer> {
  const settings = Object.fromEntries(checkSettings(options.settings, OURS));
  const anyVersion = options.version === undefined || ['newest', 'oldest'].includes(options.version);
  const { container, clock } = options;
  const own = options.own || options.settings !== undefined || container || clock || !anyVersion;
  const address = own ? undefined : addressFromEnvironment(VARIABLE);
  if (address !== undefined) return foreignMariadb(address);
  const engine = await containerRoute(container, { clock });
  if (engine !== undefined) return mariadbInContainer(engine, options, settings);
  const program = chooseVersion('MariaDB', findPrograms('MariaDB'), options.version);
  const account = { user: NAME, password: randomBytes(12).toString('hex'), database: NAME };
  const { port, owned } = await startOwned('lockkeeper-mariadb-', (folder, port) => {
    const data = new MariadbData({ program, folder, settings, clock: options.clock?.env, ...account });
    const { name, dataDir } = data;
    return { name, dataDir, endSignal: 'SIGKILL', launch: () => data.launch(port) };
  });
  return Object.assign(ownedVerbs(program, owned), {
    url: `mysql://${account.user}:${account.password}@127.0.0.1:${port}/${account.database}`,
    host: '127.0.0.1',
    port,
    ...account,
  });
}

async function foreignMariadb(text: string): Promise<MariadbServer> {
  const address = readMariadbUrl(VARIABLE, text);
  const version = await probeMariadb(VARIABLE, address);
  const verbs = foreignServer('MariaDB', `${address.host}:${address.port}`, version);
  return { ...verbs, ...address, url: text };
}
