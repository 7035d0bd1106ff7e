import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** PEM texts. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** An authority of its own, made by `openssl` in a folder of its own. */
export class CertificateAuthority {
  readonly certificate: string;
  readonly #folder: string;
  #issued = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** @param folder which exists; everything is kept below it. */
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

  /** For 127.0.0.1 and localhost, as server and client alike. */
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

/** A folder for certificates, removed at the end. */
export class CertificateFolder implements AsyncDisposable {
  readonly path: string;

  static async create(): Promise<CertificateFolder> {
    return new CertificateFolder(await mkdtemp(join(tmpdir(), 'lockkeeper-tls-')));
  }

  private constructor(path: string) {
    this.path = path;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** All at once for a reader: never half written. */
  async put(name: string, text: string): Promise<string> {
    const path = this.file(name);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
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
