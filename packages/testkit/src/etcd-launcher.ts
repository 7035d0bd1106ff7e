import { TestkitError } from './errors.ts';
import { withoutPrefix } from './etcd-ctl.ts';
import type { EtcdPrograms } from './find-server.ts';
import { getJson } from './get-json.ts';
import { ServerProcess } from './server-process.ts';

/** PEM files that a server reads: it also listens with TLS then. */
export interface EtcdTls {
  readonly certFile: string;
  readonly keyFile: string;
  /** Ask clients for certificates that this authority signed. Default: clients need none. */
  readonly clientCaFile?: string | undefined;
}

/** Everything that makes one member of an etcd cluster, which may be the only one. */
export interface EtcdLaunchPlan {
  readonly programs: EtcdPrograms;
  /** Its name in the cluster. */
  readonly name: string;
  readonly dataDir: string;
  /** The working folder. */
  readonly folder: string;
  readonly clientPort: number;
  readonly tls?: (EtcdTls & { readonly port: number }) | undefined;
  readonly listenPeerUrl: string;
  readonly advertisePeerUrl: string;
  readonly initialCluster: string;
  readonly clusterToken: string;
  /** `existing`: it joins the others, where its data directory is empty. */
  readonly state: 'new' | 'existing';
  readonly extraArgs?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

const READY_WITHIN_MS = 30_000;

export function clientUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}

/** Starts the program and resolves when it serves reads, so a member of several needs most of the others. */
export async function launchEtcd(plan: EtcdLaunchPlan): Promise<ServerProcess> {
  const { programs, folder } = plan;
  const endpoint = clientUrl(plan.clientPort);
  const clientUrls = [endpoint, ...(plan.tls ? [`https://127.0.0.1:${plan.tls.port}`] : [])].join(',');
  const args = [
    ...['--name', plan.name, '--data-dir', plan.dataDir, '--initial-cluster-token', plan.clusterToken],
    ...['--listen-client-urls', clientUrls, '--advertise-client-urls', clientUrls],
    ...['--listen-peer-urls', plan.listenPeerUrl, '--initial-advertise-peer-urls', plan.advertisePeerUrl],
    ...['--initial-cluster', plan.initialCluster, '--initial-cluster-state', plan.state],
    ...['--logger', 'zap', '--log-level', 'warn'],
    ...(plan.tls ? ['--cert-file', plan.tls.certFile, '--key-file', plan.tls.keyFile] : []),
    ...(plan.tls?.clientCaFile ? ['--client-cert-auth', '--trusted-ca-file', plan.tls.clientCaFile] : []),
    ...(plan.extraArgs ?? []),
  ];
  const env = {
    ...withoutPrefix('ETCD_'),
    // 3.4 refuses to run on arm64 unless told; where the architecture is supported this is ignored.
    ...(process.arch === 'x64' ? {} : { ETCD_UNSUPPORTED_ARCH: process.arch }),
    ...plan.env,
  };
  const run = new ServerProcess({
    name: `etcd ${programs.version}`,
    command: programs.etcd,
    args,
    env,
    cwd: folder,
    endSignal: 'SIGKILL',
  });
  try {
    await run.waitUntil(() => isHealthy(endpoint), READY_WITHIN_MS);
    return run;
  } catch (error) {
    await run.end('SIGKILL');
    throw error;
  }
}

/** Whether a start failed only because somebody else took a port meanwhile. */
export function isPortTaken(error: unknown): boolean {
  return error instanceof TestkitError && error.message.includes('address already in use');
}

async function isHealthy(endpoint: string): Promise<boolean> {
  try {
    return (await getJson<{ health: string }>(`${endpoint}/health`)).health === 'true';
  } catch {
    // Not listening yet, or no leader yet: the caller asks again until its own deadline.
    return false;
  }
}
