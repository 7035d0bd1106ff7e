import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EtcdServer } from '@lockkeeper/testkit';
import { etcdMetric } from '@lockkeeper/testkit';

/** Checking a password costs etcd a tenth of a second by default. */
export const QUICK_HASHES: readonly string[] = ['--bcrypt-cost', '4'];
/** Tokens that etcd forgets 3 s after their last use. */
export const SHORT_TOKENS: readonly string[] = ['--auth-token', 'simple', '--auth-token-ttl', '3'];

export const clerk = { username: 'clerk', password: 'pencil' };

/** Switches authentication on. `clerk` may read and write below `prefix`, nothing else. */
export async function switchOn(server: EtcdServer, prefix: string): Promise<void> {
  for (const command of [
    ['user', 'add', 'root:secret'],
    ['role', 'add', 'root'],
    ['user', 'grant-role', 'root', 'root'],
    ['user', 'add', `${clerk.username}:${clerk.password}`],
    ['role', 'add', 'office'],
    ['role', 'grant-permission', 'office', '--prefix=true', 'readwrite', prefix],
    ['user', 'grant-role', 'clerk', 'office'],
    ['auth', 'enable'],
  ]) {
    await server.ctl(command);
  }
}

/** \`etcdctl\` as root. */
export function asRoot(server: EtcdServer, ...args: readonly string[]): Promise<string> {
  return server.ctl(['--user', 'root:secret', ...args]);
}

export async function changePassword(server: EtcdServer, password: string): Promise<void> {
  const args = ['--user', 'root:secret', 'user', 'passwd', clerk.username, '--interactive=false'];
  await server.ctl(args, { input: `${password}\n` });
}

/** How many logins etcd has been asked for. */
export function logins(server: EtcdServer): Promise<number> {
  return etcdMetric(server.endpoint, 'grpc_server_started_total', 'grpc_method="Authenticate"');
}

/** Keys with which etcd signs tokens (JWT), instead of keeping them in mind. */
export class SigningKeys implements AsyncDisposable {
  /** For `etcd`. */
  readonly args: readonly string[];
  readonly #folder: string;

  static async create(): Promise<SigningKeys> {
    const folder = await mkdtemp(join(tmpdir(), 'lockkeeper-jwt-'));
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const [priv, pub] = [join(folder, 'private.pem'), join(folder, 'public.pem')];
    await writeFile(priv, privateKey.export({ type: 'pkcs1', format: 'pem' }));
    await writeFile(pub, publicKey.export({ type: 'spki', format: 'pem' }));
    const jwt = `jwt,pub-key=${pub},priv-key=${priv},sign-method=RS256,ttl=10m`;
    return new SigningKeys(folder, ['--auth-token', jwt]);
  }

  private constructor(folder: string, args: readonly string[]) {
    this.#folder = folder;
    this.args = args;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}
