// The demo as a newcomer runs it: a process of its own, judged by what it writes and how it ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const loader = ['--conditions=@lockkeeper/source', '--import', 'tsx'];

let running: ChildProcess | undefined;

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [...loader, 'scripts/demo/main.ts', ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running = child;
  return child;
}

async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = start(args, env);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { stdout, stderr, code };
}

afterEach(async () => {
  if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
  const ended = once(running, 'close');
  running.kill('SIGTERM');
  await ended;
});

interface DemoRun {
  acknowledged: number;
  expectedBalance: number;
  foundBalance: number;
  lostUpdates: number;
  rejected: number;
  rejectedWith?: string;
  signalReason?: string;
  tokens: { holder: string; token: string }[];
}

interface DemoEvent {
  run: 'unguarded' | 'guarded';
  atMs: number;
  who: string;
  kind: string;
  of?: string;
}

interface DemoDocument {
  coordinator: string;
  storage: string;
  ttlMs: number;
  unguarded: DemoRun;
  guarded: DemoRun;
  acts: { name: string; unguarded: DemoRun; guarded: DemoRun; events: DemoEvent[] }[];
  timeline: string;
  page: string;
}

/** The order in which the kinds of facts first appear in one run. */
function order(events: readonly DemoEvent[], which: DemoEvent['run'], kinds: readonly string[]): string[] {
  const seen = events.filter(({ run }) => run === which).map(({ kind, who, of }) => `${of ?? who} ${kind}`);
  return [...new Set(seen)].filter((one) => kinds.includes(one));
}

function expectTheWholeStory(demo: DemoDocument): void {
  expect(demo.acts.map(({ name }) => name)).toEqual(['paused-holder', 'write-in-flight']);
  for (const { unguarded, guarded } of demo.acts) {
    expect(unguarded).toMatchObject({ acknowledged: 2, lostUpdates: 1, rejected: 0 });
    expect(unguarded.foundBalance).toBeLessThan(unguarded.expectedBalance);
    expect(guarded).toMatchObject({ acknowledged: 2, lostUpdates: 0, rejected: 1 });
    expect(guarded).toMatchObject({ rejectedWith: 'stale-token', signalReason: 'unconfirmed' });
    expect(guarded.foundBalance).toBe(guarded.expectedBalance);
    for (const { tokens } of [unguarded, guarded]) {
      expect(tokens.slice(0, 2).map(({ holder }) => holder)).toEqual(['A', 'B']);
      const revisions = tokens.map(({ token }) => BigInt(token.split(':')[1] as string));
      expect(revisions).toEqual([...revisions].sort((one, other) => (one < other ? -1 : 1)));
      expect(new Set(revisions).size).toBe(revisions.length);
    }
  }
  expect(demo.unguarded).toMatchObject({ acknowledged: 4, lostUpdates: 2, rejected: 0 });
  expect(demo.guarded).toMatchObject({ acknowledged: 4, lostUpdates: 0, rejected: 2 });
  expect(demo.guarded.rejectedWith).toBe('stale-token');

  const [paused, inFlight] = demo.acts;
  const late = ['A checked', 'A stopped', 'A removed', 'B applied', 'A woken', 'A sent', 'A refused'];
  expect(order(paused?.events ?? [], 'guarded', late)).toEqual(late);
  const sent = ['A sent', 'network held', 'A removed', 'B acquired', 'B applied', 'A refused'];
  expect(order(inFlight?.events ?? [], 'guarded', sent)).toEqual(sent);
  // A, which is awake, learns of its loss while its write is on the way.
  const lost = ['network held', 'A lost', 'A refused'];
  expect(order(inFlight?.events ?? [], 'guarded', lost)).toEqual(lost);
}

async function expectTimeline({ timeline, page }: DemoDocument): Promise<void> {
  const drawing = await readFile(`${root}/${timeline}`, 'utf8');
  const text = await readFile(`${root}/${page}`, 'utf8');
  expect(drawing).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  for (const label of ['Act 1', 'Act 2', 'hand-over', 'late write applied', 'refused: stale-token']) {
    expect(drawing).toContain(label);
    expect(text).toContain(label);
  }
}

describe('the demo', () => {
  it('shows both acts on real servers', async () => {
    const { stdout, code, stderr } = await run(['--json']);
    expect(code, stderr).toBe(0);
    const demo = JSON.parse(stdout) as DemoDocument;
    expect(demo.coordinator).toMatch(/^etcd 3\.\d+\.\d+/);
    expect(demo.storage).toMatch(/^PostgreSQL \d+/);
    expectTheWholeStory(demo);
    for (const { events } of demo.acts) {
      const removed = events.find(({ kind }) => kind === 'removed');
      // Counted from the grant, which came before; and etcd looks for expired leases every half second.
      expect(removed?.atMs).toBeGreaterThan(demo.ttlMs - 500);
    }
    await expectTimeline(demo);
  }, 120_000);

  it('tells the same story simulated, and says so', async () => {
    const { stdout, code, stderr } = await run(['--json', '--simulate']);
    expect(code, stderr).toBe(0);
    const demo = JSON.parse(stdout) as DemoDocument;
    expect(demo.coordinator).toBe('memory');
    expectTheWholeStory(demo);
    await expectTimeline(demo);
    expect(stderr).toContain('SIMULATED');
    // Without a loaded machine in between, A's loss comes the margin before the end of its lease.
    const margin = ['A lost', 'A removed'];
    expect(order(demo.acts[1]?.events ?? [], 'guarded', margin)).toEqual(margin);
  });

  it('simulates where no server can be had, and says why', async () => {
    const nothing = { LOCKKEEPER_SERVERS: 'unpacked', LOCKKEEPER_SERVER_CACHE: '/nonexistent' };
    const { stdout, code, stderr } = await run([], nothing);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^SIMULATED/);
    expect(stdout).toMatch(/lost updates +2 +0\n/);
    expect(stderr).toContain('no etcd in reach');
  });

  it('refuses an argument that it does not have', async () => {
    const { stdout, stderr, code } = await run(['--jsno']);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(stderr).toContain('--jsno');
    expect(stderr).toContain('Usage:');
  });

  it.runIf(process.platform === 'linux')(
    'leaves no process behind when it is interrupted',
    async () => {
      const child = start([]);
      const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
      await outputOf(child.stdout, 'is stopped');
      const family = descendantsOf(child.pid ?? 0);
      expect(family.length).toBeGreaterThanOrEqual(4);
      child.kill('SIGINT');
      expect(await closed).toEqual([null, 'SIGINT']);
      // The loader's own helper ends a moment after the process it helped.
      await expect.poll(() => family.filter(isAlive), { timeout: 10_000 }).toEqual([]);
    },
    120_000,
  );
});

/** Resolves when the stream has brought `wanted`, and goes on reading, as a terminal does. */
function outputOf(stream: Readable, wanted: string): Promise<void> {
  let seen = '';
  return new Promise((resolve, reject) => {
    stream.on('data', (chunk) => {
      seen += chunk;
      if (seen.includes(wanted)) resolve();
    });
    stream.on('end', () => reject(new Error(`ended without "${wanted}":\n${seen}`)));
  });
}

/** Processes by parent, from /proc. The name in the second field may contain anything, so from its end on. */
function descendantsOf(ancestor: number): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const stat = statOf(Number(entry));
    if (stat !== undefined) parents.set(Number(entry), Number(stat[1]));
  }
  const below = (pid: number): number[] =>
    [...parents].filter(([, parent]) => parent === pid).flatMap(([child]) => [child, ...below(child)]);
  return below(ancestor);
}

/** State, parent and the rest; `undefined` for a process that is gone. */
function statOf(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ');
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  const state = statOf(pid)?.[0];
  return state !== undefined && state !== 'Z' && state !== 'X';
}
