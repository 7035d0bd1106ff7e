import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { root } from './setup/workspace.mjs';

interface Run {
  readonly child: ChildProcess;
  readonly ended: Promise<{
    code: number | null;
    signal: NodeJS.Signals | null;
    stdout: string;
    stderr: string;
  }>;
}

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** Runs `scripts/run.mjs` as npm would, apart from the run that this test belongs to. */
function runner(args: readonly string[], env: NodeJS.ProcessEnv = {}): Run {
  const { LOCKKEEPER_TALLY, LOCKKEEPER_RUNNER, VITEST, ...outer } = process.env;
  const child = spawn(process.execPath, [join(root, 'scripts', 'run.mjs'), ...args], {
    env: { ...outer, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const ended: Run['ended'] = new Promise((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
  cleanUps.push(() => {
    child.kill('SIGKILL');
  });
  return { child, ended };
}

const fixture = (name: string) => [
  'test',
  '--config',
  'scripts/fixtures/vitest.config.ts',
  `${name}.fixture`,
];

const lastLine = (text: string) => text.trimEnd().split('\n').at(-1);

describe('the closing line', () => {
  test('counts hooks and unhandled errors as failed', async () => {
    const { code, stdout } = await runner(fixture('outcomes')).ended;
    expect(lastLine(stdout)).toBe('1 passed, 3 failed, 2 skipped');
    expect(code).toBe(1);
  });

  test('counts a module that cannot be loaded as failed', async () => {
    const { code, stdout } = await runner(fixture('broken')).ended;
    expect(lastLine(stdout)).toBe('0 passed, 1 failed, 0 skipped');
    expect(code).toBe(1);
  });

  test('counts a run without any test as failed', async () => {
    const { code, stdout } = await runner(fixture('no-such')).ended;
    expect(lastLine(stdout)).toBe('0 passed, 1 failed, 0 skipped');
    expect(code).toBe(1);
  });

  test('is left to the run that a run is part of', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'lockkeeper-run-'));
    cleanUps.push(() => rm(dir, { recursive: true }));
    const tally = join(dir, 'tally');
    const { stdout } = await runner(fixture('broken'), { LOCKKEEPER_TALLY: tally }).ended;
    expect(stdout).not.toMatch(/\d+ passed, /);
    expect(JSON.parse(await readFile(tally, 'utf8'))).toEqual({ passed: 0, failed: 1, skipped: 0 });
  });
});

describe('what it cannot do it says on stderr alone', () => {
  test.each([
    [['dance'], {}, /usage: node scripts\/run\.mjs demo \| /],
    [['with:containers'], {}, /usage: npm run with:containers -- <command>/],
    [
      ['test'],
      { LOCKKEEPER_SERVERS: 'hope' },
      /LOCKKEEPER_SERVERS=hope is no route. Use env, container, path, unpacked/,
    ],
    [
      ['test'],
      { LOCKKEEPER_SERVERS: 'path', PATH: '/nowhere' },
      /no etcd in reach by the route "path".*\n- install etcd/,
    ],
    [
      ['matrix'],
      { LOCKKEEPER_SERVERS: 'env', ETCD_ENDPOINTS: 'http://127.0.0.1:1' },
      /no Redis in reach by the route "env".*\n- install Redis .* set REDIS_URL.* no MariaDB .* set MYSQL_URL/s,
    ],
    [['check', 'packages'], {}, /check takes no arguments, but got: packages/],
  ])('%j with %j', async (args, env, message) => {
    const { code, stdout, stderr } = await runner(args, env).ended;
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/ at .*\.mjs/);
    expect(stdout).toBe('');
    expect(code).toBe(1);
  });
});

describe.skipIf(process.platform !== 'linux')('no server outlives a run', () => {
  async function runThatHoldsServers() {
    const dir = await mkdtemp(join(tmpdir(), 'lockkeeper-run-'));
    cleanUps.push(() => rm(dir, { recursive: true }));
    const report = join(dir, 'report');
    const run = runner(fixture('held-servers'), { LOCKKEEPER_FIXTURE_REPORT: report });
    await expect
      .poll(() => existsSync(report) && readFileSync(report, 'utf8'), { timeout: 60_000 })
      .toBeTruthy();
    const { test, servers }: { test: number; servers: number[] } = JSON.parse(await readFile(report, 'utf8'));
    const vitest = parentOf(test);
    expect(servers.map(isRunning)).toEqual(Array(5).fill(true));
    expect(parentOf(vitest)).toBe(run.child.pid);
    return { run, vitest, pids: [vitest, test, ...servers] };
  }

  const nothingLeft = (pids: number[]) =>
    expect.poll(() => pids.filter(isRunning), { timeout: 20_000 }).toEqual([]);

  test.each(['SIGINT', 'SIGTERM'] as const)('after %s, which it passes on and ends by', async (signal) => {
    const { run, pids } = await runThatHoldsServers();
    run.child.kill(signal);
    expect(await run.ended).toMatchObject({ code: null, signal });
    await nothingLeft(pids);
  });

  test('after the runner is killed', async () => {
    const { run, pids } = await runThatHoldsServers();
    run.child.kill('SIGKILL');
    await nothingLeft(pids);
  });

  test('after both are killed', async () => {
    const { run, vitest, pids } = await runThatHoldsServers();
    process.kill(vitest, 'SIGKILL');
    run.child.kill('SIGKILL');
    await nothingLeft(pids);
  });
});

/** The fields of a process after its name: state, parent, … */
function statOf(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ');
  } catch {
    return undefined;
  }
}

const isRunning = (pid: number) => !['Z', 'X', undefined].includes(statOf(pid)?.[0]);

const parentOf = (pid: number) => Number(statOf(pid)?.[1]);
