import { connect } from '@lockkeeper/core';
import { expect, it, vi } from 'vitest';
import { createCertificates } from './certificates.ts';
import { enableEtcdAuth, etcdSigningKeys } from './etcd-auth.ts';
import { availableEtcdVersions, startEtcd } from './etcd-server.ts';

it.each(await availableEtcdVersions())(
  'makes an etcd %s that only clients with a certificate and a password may use',
  { timeout: 60_000 },
  async (version) => {
    await using certificates = await createCertificates();
    await using tokens = etcdSigningKeys();
    const extraArgs = ['--bcrypt-cost', '4', ...tokens.args];
    await using etcd = await startEtcd({ version, tls: certificates.server, extraArgs });
    const root = await enableEtcdAuth(etcd, [{ username: 'clerk', password: 'pencil', prefix: 'app/' }]);
    const hosts = etcd.tlsEndpoint ?? '';
    const { client: credentials } = certificates;
    const auth = { username: 'clerk', password: 'pencil' };

    await using keeper = await connect({ hosts, credentials, auth, namespace: 'app' });
    expect((await keeper.lock('x').acquire()).standing).toBe('held');
    await expect(connect({ hosts, credentials, auth, namespace: 'other' })).rejects.toMatchObject({
      code: 'permission-denied',
    });
    const { rootCertificateFile } = credentials;
    const stranger = connect({ hosts, credentials: { rootCertificateFile }, auth, namespace: 'app' });
    await expect(stranger).rejects.toMatchObject({ code: 'unreachable' });

    await root.changePassword('clerk', 'crayon');
    await expect(connect({ hosts, credentials, auth, namespace: 'app' })).rejects.toMatchObject({
      code: 'unauthenticated',
    });
    expect(await root.ctl(['user', 'list'])).toBe('clerk\nroot\n');
  },
);

it('says what to install where there is no openssl', async () => {
  vi.stubEnv('PATH', '/nonexistent');
  await expect(createCertificates()).rejects.toMatchObject({
    code: 'no-server',
    message: expect.stringContaining('openssl'),
  });
  vi.unstubAllEnvs();
});
