import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CtlOptions, EtcdCtl } from './etcd-ctl.ts';
import { TemporaryFolder } from './owned-server.ts';

/** A user of etcd, who may read and write what lies below one prefix, and nothing else. */
export interface EtcdAccount {
  /** Also the name of its role. */
  readonly username: string;
  readonly password: string;
  readonly prefix: string;
}

/** An etcd on which authentication is on, as its `root` user sees it. */
export interface EtcdRoot {
  /** `etcdctl` as root. */
  ctl(args: readonly string[], options?: CtlOptions): Promise<string>;
  changePassword(username: string, password: string): Promise<void>;
}

/**
 * Switches authentication on, with these users beside `root`. What the testkit asks of etcd for itself works on; its
 * plain `ctl` does not, and neither does what changes data without a user.
 *
 * etcd spends a tenth of a second on each login; `startEtcd({ extraArgs: ['--bcrypt-cost', '4'] })` spares it.
 * @throws {@link TestkitError} `command-failed`, `no-server` where there is no etcdctl.
 */
export async function enableEtcdAuth(
  etcd: Pick<EtcdCtl, 'ctl'>,
  accounts: readonly EtcdAccount[],
): Promise<EtcdRoot> {
  const commands = [
    ['user', 'add', 'root:secret'],
    ['role', 'add', 'root'],
    ['user', 'grant-role', 'root', 'root'],
    ...accounts.flatMap(({ username, password, prefix }) => [
      ['user', 'add', `${username}:${password}`],
      ['role', 'add', username],
      ['role', 'grant-permission', username, '--prefix=true', 'readwrite', prefix],
      ['user', 'grant-role', username, username],
    ]),
    ['auth', 'enable'],
  ];
  for (const command of commands) await etcd.ctl(command);
  const ctl: EtcdRoot['ctl'] = (args, options) => etcd.ctl(['--user', 'root:secret', ...args], options);
  return {
    ctl,
    changePassword: async (username, password) => {
      await ctl(['user', 'passwd', username, '--interactive=false'], { input: `${password}\n` });
    },
  };
}

export interface SigningKeysOptions {
  /** How long a token is good for, as etcd writes it. Default `10m`. */
  readonly ttl?: string | undefined;
}

/** Keys with which etcd signs tokens (JWT), instead of keeping them in mind. */
export interface EtcdSigningKeys extends AsyncDisposable {
  /** For `startEtcd({ extraArgs })`. */
  readonly args: readonly string[];
}

export function etcdSigningKeys({ ttl = '10m' }: SigningKeysOptions = {}): EtcdSigningKeys {
  const folder = new TemporaryFolder('lockkeeper-jwt-');
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const [secret, open] = [join(folder.path, 'private.pem'), join(folder.path, 'public.pem')];
  writeFileSync(secret, privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 });
  writeFileSync(open, publicKey.export({ type: 'spki', format: 'pem' }));
  return {
    args: ['--auth-token', `jwt,pub-key=${open},priv-key=${secret},sign-method=RS256,ttl=${ttl}`],
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}
