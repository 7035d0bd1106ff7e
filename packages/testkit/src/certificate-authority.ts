import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TestkitError } from './errors.ts';

/** PEM texts. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** An authority of its own, made by `openssl` in a folder of its own, good for a day. */
export class CertificateAuthority {
  readonly certificate: string;
  readonly #folder: string;
  #issued = 0;
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param folder which exists; everything is kept below it.
   * @throws {@link TestkitError} `no-server` where there is no openssl, `command-failed`
   */
  static async create(folder: string, name: string): Promise<CertificateAuthority> {
    const own = join(folder, name);
    await mkdir(own);
    await writeFile(join(own, 'openssl.cnf'), configuration(own));
    await writeFile(join(own, 'index.txt'), '');
    await run('openssl', [
      ...['req', '-x509', ...NEW_KEY, '-keyout', join(own, 'ca.key'), '-out', join(own, 'ca.pem')],
      ...['-subj', `/CN=${name}`, '-days', '1'],
    ]);
    return new CertificateAuthority(own, await readFile(join(own, 'ca.pem'), 'utf8'));
  }

  private constructor(folder: string, certificate: string) {
    this.#folder = folder;
    this.certificate = certificate;
  }

  /** A certificate for 127.0.0.1 and localhost, of a server or a client alike, valid from a minute ago on. */
  issue(name: string, validForMs: number): Promise<KeyPair> {
    // One after the other: they share the authority's list of what it issued.
    const issued = this.#last.then(() => this.#issue(name, validForMs));
    this.#last = issued.catch(() => undefined);
    return issued;
  }

  async #issue(name: string, validForMs: number): Promise<KeyPair> {
    this.#issued += 1;
    const number = this.#issued;
    const file = (ending: string) => join(this.#folder, `${number}.${ending}`);
    const subject = ['-subj', `/CN=${name}`];
    await run('openssl', ['req', ...NEW_KEY, '-keyout', file('key'), '-out', file('csr'), ...subject]);
    const now = Date.now();
    await run('openssl', [
      ...['ca', '-batch', '-notext', '-config', join(this.#folder, 'openssl.cnf')],
      ...['-in', file('csr'), '-out', file('pem')],
      ...['-startdate', asn1Time(now - 60_000), '-enddate', asn1Time(now + validForMs)],
    ]);
    const [certificate, key] = await Promise.all(
      [file('pem'), file('key')].map((path) => readFile(path, 'utf8')),
    );
    return { certificate: certificate as string, key: key as string };
  }
}

async function run(program: 'openssl', args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(program, args);
  } catch (cause) {
    const { code, stderr, message } = cause as Error & { code?: unknown; stderr?: string };
    if (code === 'ENOENT') {
      throw new TestkitError('no-server', 'no openssl in reach (Debian, Ubuntu: apt install openssl)', {
        cause,
      });
    }
    throw new TestkitError('command-failed', `${program} ${args[0]} failed: ${stderr || message}`, { cause });
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

function configuration(folder: string): string {
  return `
[ca]
default_ca = own
[own]
database = ${folder}/index.txt
new_certs_dir = ${folder}
rand_serial = yes
unique_subject = no
certificate = ${folder}/ca.pem
private_key = ${folder}/ca.key
default_md = sha256
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[leaf]
subjectAltName = IP:127.0.0.1, DNS:localhost
extendedKeyUsage = serverAuth, clientAuth
`;
}

/** \`20260131235959Z\` */
function asn1Time(wallMs: number): string {
  return `${new Date(wallMs).toISOString().replace(/\D/g, '').slice(0, 14)}Z`;
}
