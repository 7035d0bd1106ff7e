import { type EtcdRoot, type EtcdServer, enableEtcdAuth, etcdMetric } from '@lockkeeper/testkit';

/** Checking a password costs etcd a tenth of a second by default. */
export const QUICK_HASHES: readonly string[] = ['--bcrypt-cost', '4'];
/** Tokens that etcd forgets 3 s after their last use. */
export const SHORT_TOKENS: readonly string[] = ['--auth-token', 'simple', '--auth-token-ttl', '3'];

export const clerk = { username: 'clerk', password: 'pencil' };

/** Switches authentication on. `clerk` may read and write below `prefix`, nothing else. */
export function switchOn(server: EtcdServer, prefix: string): Promise<EtcdRoot> {
  return enableEtcdAuth(server, [{ ...clerk, prefix }]);
}

/** How many logins etcd has been asked for. */
export function logins(server: EtcdServer): Promise<number> {
  return etcdMetric(server.endpoint, 'grpc_server_started_total', 'grpc_method="Authenticate"');
}
