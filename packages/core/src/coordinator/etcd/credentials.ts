import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type ChannelCredentials, credentials as grpcCredentials } from '@grpc/grpc-js';
import { LockkeeperError } from '../../errors.ts';
import { publish } from '../../telemetry.ts';
import { invalidOption } from '../../validation.ts';

/**
 * PEM, each part as a text or as the path of a file. `certChain` and `privateKey`, for a server that asks
 * for the client's certificate, come together.
 *
 * Files are read at once, and again for every new connection, so that rotated ones are used without a
 * restart. A connection that stands is not touched: TLS looks at certificates only when it is made. Files
 * that cannot be used at that moment (missing, half written, a key that does not match yet) leave in force
 * what was read before; they are reported on the channel `lockkeeper:credentials:unusable`, and named in the
 * error if the connection fails.
 */
export interface EtcdCredentials {
  /** Whom to trust instead of the authorities that Node brings along; several are written one after another. */
  readonly rootCertificate?: string | Uint8Array | undefined;
  readonly certChain?: string | Uint8Array | undefined;
  /** Without a passphrase. */
  readonly privateKey?: string | Uint8Array | undefined;
  /** Instead of `rootCertificate`. */
  readonly rootCertificateFile?: string | undefined;
  /** Instead of `certChain`. */
  readonly certChainFile?: string | undefined;
  /** Instead of `privateKey`. */
  readonly privateKeyFile?: string | undefined;
}

/** What a new connection is made with. */
export interface ConnectionSecurity {
  readonly current: ChannelCredentials;
  /** Why `current` is older than what the files hold now. */
  readonly problem: LockkeeperError | undefined;
  /** Takes up what the files hold now. Never rejects. */
  refresh(): Promise<void>;
}

export const PLAIN_TEXT: ConnectionSecurity = {
  current: grpcCredentials.createInsecure(),
  problem: undefined,
  refresh: async () => {},
};

const PARTS = ['rootCertificate', 'certChain', 'privateKey'] as const;
type Part = (typeof PARTS)[number];
type Pems = Readonly<Partial<Record<Part, Buffer>>>;

/** The credentials in force: always a usable set, the one that was read last. */
export class Certificates implements ConnectionSecurity {
  readonly #source: EtcdCredentials;
  #pems: Pems;
  #current: ChannelCredentials;
  #problem: LockkeeperError | undefined;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  /** @throws LockkeeperError `invalid-option`, naming the field; never with a key in the message. */
  constructor(source: EtcdCredentials) {
    this.#source = checkFields(source);
    const pems: Partial<Record<Part, Buffer>> = {};
    for (const part of PARTS) {
      const pem = source[part];
      const file = source[`${part}File`];
      if (pem !== undefined) pems[part] = Buffer.from(pem);
      else if (file !== undefined) pems[part] = readable(part, file, () => readFileSync(file));
    }
    this.#current = usable(source, pems);
    this.#pems = pems;
  }

  get current(): ChannelCredentials {
    return this.#current;
  }

  get problem(): LockkeeperError | undefined {
    return this.#problem;
  }

  refresh(): Promise<void> {
    // One that is under way may have read a file before it was replaced.
    this.#next ??= this.#running.then(() => this.#start());
    return this.#next;
  }

  #start(): Promise<void> {
    this.#next = undefined;
    this.#running = this.#refresh();
    return this.#running;
  }

  async #refresh(): Promise<void> {
    try {
      const read = await Promise.all(PARTS.map((part) => this.#reread(part)));
      const pems: Pems = Object.assign({}, ...read);
      if (PARTS.some((part) => !sameBytes(pems[part], this.#pems[part]))) {
        this.#current = usable(this.#source, pems);
        this.#pems = pems;
      }
      this.#problem = undefined;
    } catch (cause) {
      const error = asLockkeeperError(cause);
      this.#problem = error;
      publish('lockkeeper:credentials:unusable', () => ({ error }));
    }
  }

  async #reread(part: Part): Promise<Pems> {
    const file = this.#source[`${part}File`];
    const known = this.#pems[part];
    if (file === undefined) return known === undefined ? {} : { [part]: known };
    try {
      return { [part]: await readFile(file) };
    } catch (cause) {
      throw unreadable(part, file, cause);
    }
  }
}

function checkFields(source: EtcdCredentials): EtcdCredentials {
  if (typeof source !== 'object' || source === null) {
    throw invalidOption('credentials', source, 'expected an object of PEM texts or paths');
  }
  for (const part of PARTS) {
    const pem: unknown = source[part];
    const file: unknown = source[`${part}File`];
    // A key must not end up in an error message, so no value is shown here.
    if (pem !== undefined && !isText(pem) && !(pem instanceof Uint8Array && pem.length > 0)) {
      throw invalidOption(`credentials.${part}`, typeof pem, 'expected a PEM text or its bytes');
    }
    if (file === undefined) continue;
    if (!isText(file)) throw invalidOption(`credentials.${part}File`, file, 'expected the path of a file');
    if (pem !== undefined) {
      throw invalidOption(`credentials.${part}File`, file, `expected ${part} or its file, not both`);
    }
  }
  const given = (part: Part) => source[part] !== undefined || source[`${part}File`] !== undefined;
  if (given('certChain') !== given('privateKey')) {
    const missing = given('certChain') ? 'privateKey' : 'certChain';
    const why = 'expected certChain and privateKey together, each as a text or a file';
    throw invalidOption(`credentials.${missing}`, undefined, why);
  }
  return source;
}

/** Looks closer than TLS does, which takes a half-written list of authorities for an empty one. */
function usable(source: EtcdCredentials, pems: Pems): ChannelCredentials {
  const { rootCertificate, certChain, privateKey } = pems;
  if (rootCertificate !== undefined) check(source, 'rootCertificate', () => certificatesIn(rootCertificate));
  if (certChain === undefined || privateKey === undefined) return create(pems);
  const [leaf] = check(source, 'certChain', () => certificatesIn(certChain));
  const key = check(source, 'privateKey', () => createPrivateKey(privateKey));
  if (leaf?.checkPrivateKey(key)) return create(pems);
  throw unusable(source, 'privateKey', `it does not belong to ${nameOf(source, 'certChain')}`);
}

function create({ rootCertificate, privateKey, certChain }: Pems): ChannelCredentials {
  try {
    return grpcCredentials.createSsl(rootCertificate ?? null, privateKey ?? null, certChain ?? null);
  } catch (cause) {
    throw new LockkeeperError('invalid-option', `credentials are not usable: ${messageOf(cause)}`, { cause });
  }
}

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----[^-]*-----END \1-----/g;

function certificatesIn(pem: Buffer): X509Certificate[] {
  const text = pem.toString('latin1');
  const blocks = [...text.matchAll(BLOCK)];
  if (blocks.length !== text.split('-----BEGIN').length - 1) throw new Error('it ends within a PEM block');
  const certificates = blocks
    .filter(([, label]) => label?.endsWith('CERTIFICATE'))
    .map(([block]) => new X509Certificate(block));
  if (certificates.length === 0) throw new Error('it holds no PEM certificate');
  return certificates;
}

function check<T>(source: EtcdCredentials, part: Part, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw unusable(source, part, messageOf(cause), cause);
  }
}

function readable(part: Part, file: string, read: () => Buffer): Buffer {
  try {
    return read();
  } catch (cause) {
    throw unreadable(part, file, cause);
  }
}

function unreadable(part: Part, file: string, cause: unknown): LockkeeperError {
  const text = `credentials.${part}File ${JSON.stringify(file)} cannot be read: ${messageOf(cause)}`;
  return new LockkeeperError('invalid-option', text, { cause });
}

function unusable(source: EtcdCredentials, part: Part, why: string, cause?: unknown): LockkeeperError {
  const text = `${nameOf(source, part)} is not usable: ${why}`;
  return new LockkeeperError('invalid-option', text, { cause });
}

function nameOf(source: EtcdCredentials, part: Part): string {
  const file = source[`${part}File`];
  return file === undefined ? `credentials.${part}` : `credentials.${part}File ${JSON.stringify(file)}`;
}

function sameBytes(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function asLockkeeperError(cause: unknown): LockkeeperError {
  if (cause instanceof LockkeeperError) return cause;
  return new LockkeeperError('invalid-option', `credentials are not usable: ${messageOf(cause)}`, { cause });
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
