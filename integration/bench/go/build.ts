// Builds main.go with the distribution's Go toolchain, from the distribution's packaged sources, where both are there.
// Nothing is installed and nothing is downloaded.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export interface GoMutex {
  /** Takes an endpoint; see main.go. */
  readonly program: string;
  /** `go1.19.8, client 3.4.23`. */
  readonly version: string;
}

/** Why a peer cannot be measured on this machine. */
export interface Missing {
  readonly missing: string;
}

/** Where Debian and Ubuntu keep the sources of Go packages. */
const PACKAGED = '/usr/share/gocode';

/** etcd's client as the packages have it, newest first; main.go imports the last. */
const CLIENTS = [
  { client: 'go.etcd.io/etcd/client/v3', version: 'go.etcd.io/etcd/api/v3/version/version.go' },
  { client: 'go.etcd.io/etcd/clientv3', version: 'go.etcd.io/etcd/version/version.go' },
] as const;

const HINT = 'Debian and Ubuntu: apt-get install golang-go golang-etcd-server-dev';

const sourceFile = fileURLToPath(new URL('main.go', import.meta.url));
const buildDir = fileURLToPath(new URL('../../../.cache/bench/go', import.meta.url));

let built: Promise<GoMutex | Missing> | undefined;

export function goMutex(): Promise<GoMutex | Missing> {
  built ??= build();
  return built;
}

async function build(): Promise<GoMutex | Missing> {
  const toolchain = await go(['env', 'GOVERSION']).catch(() => undefined);
  if (toolchain === undefined) return { missing: `no go on PATH (${HINT})` };
  const packaged = CLIENTS.find(({ client }) => existsSync(join(PACKAGED, 'src', client, 'concurrency')));
  if (packaged === undefined) return { missing: `no etcd client for Go in ${PACKAGED} (${HINT})` };
  await mkdir(buildDir, { recursive: true });
  const [source, program] = [join(buildDir, 'main.go'), join(buildDir, 'go-mutex')];
  const written = await readFile(sourceFile, 'utf8');
  await writeFile(source, written.replaceAll('go.etcd.io/etcd/clientv3', packaged.client));
  try {
    await go(['build', '-o', program, source]);
  } catch (error) {
    return { missing: `it could not be built: ${error instanceof Error ? error.message : String(error)}` };
  }
  const versionFile = await readFile(join(PACKAGED, 'src', packaged.version), 'utf8');
  const client = /\bVersion\s*=\s*"([^"]+)"/.exec(versionFile)?.[1] ?? 'of unknown version';
  return { program, version: `${toolchain}, client ${client}` };
}

async function go(args: readonly string[]): Promise<string> {
  const env = {
    ...process.env,
    GO111MODULE: 'off',
    GOPATH: PACKAGED,
    GOCACHE: join(buildDir, 'cache'),
    GOFLAGS: '',
    GOPROXY: 'off',
    GOTOOLCHAIN: 'local',
    // Without a C compiler.
    CGO_ENABLED: '0',
  };
  const { stdout } = await promisify(execFile)('go', args, { env });
  return stdout.trim();
}
