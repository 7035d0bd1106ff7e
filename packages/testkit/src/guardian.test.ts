import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { processState, signal, treeOf } from './process-table.ts';
import { startWorker, type Worker } from './worker/worker.ts';

/**
 * Nothing that the testkit started outlives its process. The runner here is a process of its own that
 * starts an etcd, a PostgreSQL and workers, and is then ended in every way a test run can end.
 */
describe.skipIf(process.platform !== 'linux')('when the runner ends', { timeout: 120_000 }, () => {
  let runner: Worker | undefined;
  afterEach(() => runner?.kill());

  async function startRunner(mode: 'with workers' | 'servers only') {
    runner = await startWorker(new URL('./fixtures/runner.ts', import.meta.url), { args: [mode] });
    const { pids, workers } = (await runner.next('up')) as unknown as {
      pids: { etcd: number; postgres: number };
      workers: number[];
    };
    const backends = treeOf(pids.postgres).slice(1);
    expect(backends.length).toBeGreaterThan(2);
    const all = [pids.etcd, pids.postgres, ...backends, ...workers];
    const folders = [pids.etcd, pids.postgres].map((pid) => readlinkSync(`/proc/${pid}/cwd`));
    return { runner, pids, workers, all, folders: folders.map((cwd) => cwd.replace(/\/data$/, '')) };
  }

  async function expectNothingLeft({ all, folders }: { all: number[]; folders: string[] }) {
    await expect
      .poll(() => all.filter((pid) => processState(pid) !== 'gone'), { timeout: 15_000 })
      .toEqual([]);
    await expect.poll(() => folders.filter((folder) => existsSync(folder)), { timeout: 15_000 }).toEqual([]);
  }

  it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)('by %s, with everything paused', async (name) => {
    const started = await startRunner('with workers');
    started.runner.send({ type: 'pause' });
    await started.runner.next('paused');
    expect(processState(started.pids.etcd)).toBe('stopped');
    expect(processState(started.pids.postgres)).toBe('stopped');
    expect(started.workers.map(processState)).toEqual(['running', 'stopped']);
    const segment = segmentOf(started.pids.postgres);
    expect(sharedMemory()).toContain(segment);

    // To the runner alone: a signal to its tree would do the guardian's work.
    signal(started.runner.pid, name);
    expect(await started.runner.exited).toEqual({ code: null, signal: name });

    await expectNothingLeft(started);
    // PostgreSQL was shut down rather than killed, and so removed its segment.
    expect(sharedMemory()).not.toContain(segment);
  });

  it('by SIGKILL, after another guardian took the place of one that was killed', async () => {
    const started = await startRunner('with workers');
    const [first] = guardiansOf(started.runner.pid);
    if (first === undefined) throw new Error('no guardian');
    signal(first, 'SIGKILL');
    await expect.poll(() => guardiansOf(started.runner.pid).some((pid) => pid !== first)).toBe(true);
    signal(started.runner.pid, 'SIGKILL');
    await expectNothingLeft(started);
    expect(started.runner.stderr).toBe('');
  });

  it('by an uncaught error', async () => {
    const started = await startRunner('with workers');
    started.runner.send({ type: 'throw' });
    expect(await started.runner.exited).toEqual({ code: 1, signal: null });
    await expectNothingLeft(started);
  });

  it('by itself, without having stopped its servers, which do not keep it alive', async () => {
    const started = await startRunner('servers only');
    started.runner.send({ type: 'end' });
    expect(await started.runner.exited).toEqual({ code: 0, signal: null });
    await expectNothingLeft(started);
  });
});

function guardiansOf(runner: number): number[] {
  return treeOf(runner).filter((pid) => {
    if (processState(pid) === 'gone') return false;
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('guardian-process');
  });
}

/** The id of the System V segment that the server notes in its data folder. */
function segmentOf(pid: number): string | undefined {
  return readFileSync(`/proc/${pid}/cwd/postmaster.pid`, 'utf8').split('\n')[6]?.trim().split(/\s+/)[1];
}

function sharedMemory(): (string | undefined)[] {
  const lines = readFileSync('/proc/sysvipc/shm', 'latin1').trim().split('\n').slice(1);
  return lines.map((line) => line.trim().split(/\s+/)[1]);
}
