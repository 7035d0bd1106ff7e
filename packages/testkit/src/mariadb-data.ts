import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { TestkitError } from './errors.ts';
import { environmentOf, type ServerProgram } from './find-programs.ts';
import { ServerProcess } from './server-process.ts';
import type { ShiftedClock } from './shifted-clock.ts';

export interface MariadbDataPlan {
  readonly program: ServerProgram;
  readonly folder: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly clock: ShiftedClock['env'] | undefined;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const READY_WITHIN_MS = 60_000;

/** Where a server is quick to make and small: nothing here changes what a commit means. */
const SMALL = {
  'innodb-buffer-pool-size': '32M',
  'innodb-log-file-size': '8M',
  'innodb-data-file-path': 'ibdata1:5M:autoextend',
  'innodb-autoextend-increment': '1',
  'innodb-temp-data-file-path': 'ibtmp1:3M:autoextend',
  'innodb-use-native-aio': 'OFF',
  'aria-log-file-size': '8M',
  'aria-pagecache-buffer-size': '8M',
  'key-buffer-size': '1M',
} as const;

/** The data of one server, created on the first launch and after a wipe. */
export class MariadbData {
  readonly name: string;
  readonly dataDir: string;
  readonly #plan: MariadbDataPlan;
  readonly #shareDir: string;

  constructor(plan: MariadbDataPlan) {
    this.name = `MariaDB ${plan.program.version}`;
    this.dataDir = join(plan.folder, 'data');
    this.#plan = plan;
    this.#shareDir = shareDirOf(plan.program);
  }

  async launch(port: number): Promise<ServerProcess> {
    const { program, folder, settings } = this.#plan;
    if (!existsSync(join(this.dataDir, 'mysql'))) await this.#create();
    const ours = {
      ...SMALL,
      'innodb-flush-log-at-trx-commit': '1',
      'skip-log-bin': '',
      'skip-name-resolve': '',
      'performance-schema': 'OFF',
      ...settings,
      'bind-address': '127.0.0.1',
      port: `${port}`,
      socket: join(folder, 'socket'),
      'pid-file': join(folder, 'pid'),
    };
    const run = new ServerProcess({
      name: this.name,
      command: program.bin,
      args: [...this.#common(), ...flags(ours)],
      env: { ...environmentOf(program), ...this.#plan.clock },
      cwd: folder,
      endSignal: 'SIGKILL',
    });
    try {
      await run.waitUntil((log) => log.includes('ready for connections'), READY_WITHIN_MS);
      return run;
    } catch (error) {
      await run.end('SIGKILL');
      throw error;
    }
  }

  /** What mariadb-install-db does, without the help texts and the time zones. */
  async #create(): Promise<void> {
    const { program, folder } = this.#plan;
    await mkdir(this.dataDir, { recursive: true, mode: 0o700 });
    // Nothing here has to outlive a power cut between this and the first start.
    const hasty = { ...SMALL, 'innodb-flush-method': 'nosync', 'debug-no-sync': '' };
    const args = [...this.#common(), '--bootstrap', ...flags(hasty)];
    const child = spawn(program.bin, args, { cwd: folder, env: environmentOf(program), stdio: 'pipe' });
    // Where it does not read on, its end says why.
    child.stdin.on('error', () => undefined).end(this.#script());
    const log = text(child.stderr);
    child.stdout.resume();
    try {
      const [code, signal] = await once(child, 'close');
      if (code === 0) return;
      const why = (await log).trim().slice(-2_000);
      throw new Error(`ended with ${code ?? signal}; its log ends with:\n${why}`);
    } catch (cause) {
      const { message } = cause as Error;
      throw new TestkitError('start-failed', `creating the data of ${this.name} failed: ${message}`, {
        cause,
      });
    }
  }

  #script(): string {
    const { user, password, database } = this.#plan;
    return [
      'CREATE DATABASE mysql;',
      'USE mysql;',
      'SET @auth_root_socket=NULL;',
      "SET @current_hostname='localhost';",
      ...['system_tables', 'performance_tables', 'system_tables_data'].map((name) => this.#read(name)),
      'FLUSH PRIVILEGES;',
      // Root has no password.
      "DELETE FROM mysql.global_priv WHERE User IN ('root', '');",
      "DELETE FROM mysql.proxies_priv WHERE User = 'root';",
      'FLUSH PRIVILEGES;',
      `CREATE USER '${user}'@'%' IDENTIFIED BY '${password}';`,
      `GRANT ALL PRIVILEGES ON *.* TO '${user}'@'%' WITH GRANT OPTION;`,
      `CREATE DATABASE ${database} CHARACTER SET utf8mb4;`,
      '',
    ].join('\n');
  }

  #read(name: string): string {
    const file = ['mariadb_', 'mysql_']
      .map((prefix) => join(this.#shareDir, `${prefix}${name}.sql`))
      .find((path) => existsSync(path));
    if (file !== undefined) return readFileSync(file, 'utf8');
    const where = join(this.#shareDir, `mysql_${name}.sql`);
    throw new TestkitError('start-failed', `${this.name} is incomplete: there is no ${where}`);
  }

  #common(): string[] {
    const { program, folder } = this.#plan;
    return [
      '--no-defaults',
      // It refuses to run as root, unless root says so.
      ...(process.getuid?.() === 0 ? ['--user=root'] : []),
      ...(program.libDir === undefined ? [] : [`--basedir=${dirname(dirname(program.bin))}`]),
      `--lc-messages-dir=${this.#shareDir}`,
      `--character-sets-dir=${join(this.#shareDir, 'charsets')}`,
      `--datadir=${this.dataDir}`,
      `--tmpdir=${folder}`,
    ];
  }
}

/** The folder of its texts and scripts, which is beside the one of the program. */
function shareDirOf({ bin, version }: ServerProgram): string {
  const share = join(dirname(dirname(realpathSync(bin))), 'share');
  const folder = ['mariadb', 'mysql']
    .map((name) => join(share, name))
    .find((path) => existsSync(join(path, 'charsets')));
  if (folder !== undefined) return folder;
  throw new TestkitError('start-failed', `MariaDB ${version} is incomplete: no charsets below ${share}`);
}

function flags(settings: Readonly<Record<string, string>>): string[] {
  // Of two spellings of a setting, the last one wins, as in the server.
  return Object.entries(settings).map(([name, value]) => (value === '' ? `--${name}` : `--${name}=${value}`));
}
