import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { TestkitError } from './errors.ts';
import { forgetProcess, guardProcess } from './guardian.ts';

export interface CtlOptions {
  /** Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Written to the command's stdin, which then ends. Default: nothing. */
  readonly input?: string | undefined;
}

/** The `etcdctl` of a server or a cluster. */
export interface EtcdCtl {
  /** The `etcdctl` that goes with it; `undefined` where none was found. */
  readonly ctlPath: string | undefined;
  /**
   * Runs `etcdctl` against this server. @returns what it wrote to stdout.
   * @throws {@link TestkitError} `command-failed` with its stderr, `no-server` where there is no etcdctl.
   */
  ctl(args: readonly string[], options?: CtlOptions): Promise<string>;
  /** Starts `etcdctl`, for commands that stay: `spawnCtl(['lock', 'name'])`. The guardian watches it too. */
  spawnCtl(args: readonly string[]): ChildProcessWithoutNullStreams;
}

/** @param endpoints one address, or several with commas between. */
export function ctlOf(etcdctl: string | undefined, endpoints: string): EtcdCtl {
  const command = (args: readonly string[]) => {
    if (etcdctl !== undefined) return { etcdctl, args: ['--endpoints', endpoints, ...args] };
    throw new TestkitError('no-server', 'no etcdctl in reach (Debian, Ubuntu: apt install etcd-client)');
  };
  const env = withoutPrefix('ETCDCTL_');
  return {
    ctlPath: etcdctl,
    ctl: async (args, { timeoutMs = 10_000, input = '' } = {}) => {
      const run = command(args);
      return new Promise((resolve, reject) => {
        const child = execFile(
          run.etcdctl,
          run.args,
          { env, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 256 * 1024 * 1024 },
          (cause, stdout, stderr) => {
            if (cause === null) return resolve(stdout);
            const why = `etcdctl ${args.join(' ')} failed: ${stderr.trim() || cause.message}`;
            reject(new TestkitError('command-failed', why, { cause }));
          },
        );
        // A command that reads nothing may end before this is written: then EPIPE says nothing new.
        child.stdin?.on('error', () => {});
        child.stdin?.end(input);
      });
    },
    spawnCtl: (args) => {
      const run = command(args);
      const child = spawn(run.etcdctl, run.args, { env, stdio: 'pipe', detached: true });
      const { pid } = child;
      if (pid !== undefined) {
        guardProcess(pid, 'SIGKILL');
        child.once('exit', () => forgetProcess(pid));
      }
      return child;
    },
  };
}

/** The environment without the variables that are meant for another etcd or etcdctl. */
export function withoutPrefix(prefix: string): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith(prefix)));
}
