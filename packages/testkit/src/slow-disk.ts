import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { TestkitError } from './errors.ts';
import { findStrace } from './find-tools.ts';
import { forgetProcess, guardProcess } from './guardian.ts';
import { treeOf } from './process-table.ts';

export interface SlowDiskOptions {
  /** How much longer each flush to the disk takes: 1 to 60,000. */
  readonly delayMs: number;
}

/** A disk that is slow until it is restored. */
export interface SlowDisk extends AsyncDisposable {
  /** Resolves when nothing is delayed any more, except for the flush that is under way. Idempotent. */
  restore(): Promise<void>;
}

const FLUSHES = 'fsync,fdatasync,sync_file_range,msync';

/**
 * Lets every flush to the disk of a running server, or of any process, take `delayMs` longer: `fsync`, `fdatasync`
 * and their like, in all of its processes and those that they start. No connection is closed; nothing is lost.
 *
 * It is done by `strace`, which holds each of these calls back on its way into the kernel. Everything else that the
 * process asks of the kernel becomes somewhat slower as well. After a restart of the server the disk is fast again.
 * One process cannot be slowed down twice at a time.
 *
 * ```ts
 * await using _ = await slowDisk(etcd, { delayMs: 800 });
 * ```
 * @param target a server of this process's (`etcd`, `cluster.members[0]`, `postgres`), a worker, or `{ pid }`.
 * @throws {@link TestkitError} `not-running`; `no-server` where there is no `strace`; `not-permitted` where the kernel
 *   does not let us trace: with `kernel.yama.ptrace_scope` above 0 only root may, in some containers nobody.
 */
export async function slowDisk(
  target: { readonly pid: number | undefined },
  { delayMs }: SlowDiskOptions,
): Promise<SlowDisk> {
  if (!(delayMs >= 1 && delayMs <= 60_000)) {
    throw new TestkitError('invalid-option', `delayMs is ${delayMs}; expected 1 to 60,000`);
  }
  if (target.pid === undefined) throw new TestkitError('not-running', 'there is no process to slow down');
  const { bin, libDir } = findStrace();
  const pids = treeOf(target.pid);
  const args = [
    ...['-f', '-o', '/dev/null', '-e', `trace=${FLUSHES}`],
    ...['-e', `inject=${FLUSHES}:delay_enter=${Math.round(delayMs * 1_000)}`],
    ...pids.flatMap((one) => ['-p', `${one}`]),
  ];
  const env = libDir === undefined ? process.env : { ...process.env, LD_LIBRARY_PATH: libDir };
  const tracer = spawn(bin, args, { env, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const { pid } = tracer;
  if (pid === undefined) {
    const [cause] = (await once(tracer, 'error')) as [Error];
    throw new TestkitError('no-server', `${bin} cannot be started: ${cause.message}`, { cause });
  }
  guardProcess(pid, 'SIGTERM');
  const exited = new Promise<void>((resolve) => {
    tracer.once('exit', () => {
      forgetProcess(pid);
      resolve();
    });
  });
  await untilAttached(tracer.stderr, pids.length, exited);
  keepAlive(tracer, false);
  const letGo = () => {
    keepAlive(tracer, true);
    // On SIGTERM it lets go of them all, and they run on.
    tracer.kill('SIGTERM');
    return exited;
  };
  let restored: Promise<void> | undefined;
  const restore = () => {
    restored ??= letGo();
    return restored;
  };
  return { restore, [Symbol.asyncDispose]: restore };
}

/** For each process it says that it is attached, or why not: some may have ended by themselves meanwhile. */
async function untilAttached(
  stderr: NodeJS.ReadableStream,
  processes: number,
  exited: Promise<void>,
): Promise<void> {
  let said = '';
  const attached = new Promise<void>((resolve) => {
    stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if ((said.match(/ attached|attach: /g) ?? []).length >= processes) resolve();
    });
  });
  const failed = exited.then(() => {
    const why = said.trim().split('\n').at(-1);
    throw new TestkitError('not-permitted', `the process cannot be traced by strace: ${why}`);
  });
  failed.catch(() => {});
  await Promise.race([attached, failed]);
  // Where it attached to nothing it ends at once.
  if (!said.includes(' attached')) await failed;
}

/** Whether it keeps this process alive. */
function keepAlive(child: ChildProcess, wanted: boolean): void {
  const method = wanted ? 'ref' : 'unref';
  child[method]();
  (child.stderr as Socket | null)?.[method]();
}
