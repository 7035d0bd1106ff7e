import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EtcdCredentials } from '@lockkeeper/core';
import { CertificateAuthority } from './certificate-authority.ts';
import type { EtcdTls } from './etcd-launcher.ts';
import { TemporaryFolder } from './owned-server.ts';

/** A folder for certificates, removed at the end. */
export class CertificateFolder implements AsyncDisposable {
  readonly #folder = new TemporaryFolder('lockkeeper-tls-');

  get path(): string {
    return this.#folder.path;
  }

  /** Where the file of that name is, or will be. */
  file(name: string): string {
    return join(this.path, name);
  }

  /** Writes a file all at once for a reader: never half written. @returns its path. */
  async put(name: string, text: string): Promise<string> {
    const path = this.file(name);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder.remove();
  }
}

/** What a server and its clients need for TLS, in files. */
export interface TestCertificates extends AsyncDisposable {
  /** For `startEtcd({ tls })`: it asks clients for certificates of the same authority. */
  readonly server: EtcdTls;
  /** For `connect({ hosts: etcd.tlsEndpoint, credentials })`. */
  readonly client: EtcdCredentials;
}

/**
 * Makes an authority and certificates for a server and a client on 127.0.0.1 and localhost, good for a day. They
 * need `openssl`.
 *
 * ```ts
 * await using certificates = await createCertificates();
 * await using etcd = await startEtcd({ tls: certificates.server });
 * const keeper = await connect({ hosts: etcd.tlsEndpoint, credentials: certificates.client });
 * ```
 * For certificates that lapse, are replaced or come from somebody else: {@link CertificateAuthority}.
 * @throws {@link TestkitError} `no-server` where there is no openssl, `command-failed`
 */
export async function createCertificates(): Promise<TestCertificates> {
  const folder = new CertificateFolder();
  try {
    const authority = await CertificateAuthority.create(folder.path, 'authority');
    const put = async (name: string) => {
      const { certificate, key } = await authority.issue(name, 23 * 3_600_000);
      return {
        certFile: await folder.put(`${name}.pem`, certificate),
        keyFile: await folder.put(`${name}.key`, key),
      };
    };
    const caFile = await folder.put('authority.pem', authority.certificate);
    const [server, client] = [await put('server'), await put('client')];
    return {
      server: { ...server, clientCaFile: caFile },
      client: {
        rootCertificateFile: caFile,
        certChainFile: client.certFile,
        privateKeyFile: client.keyFile,
      },
      [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
    };
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
}
