// What a run beside an engine leaves: nothing, however it ends (I3). The runs here are made inside of one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it, vi } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const runs = join(root, '.cache', 'containers');
const MAIN = join(root, 'scripts', 'containers', 'main.mjs');

/** A container that is paused, since that is the hardest to end, and one that runs. */
const START = `
  docker network create ours >/dev/null 2>&1
  docker run -d --name still --network ours "$LOCKKEEPER_REDIS_IMAGE" sleep 12345 >/dev/null 2>&1
  docker run -d --name busy --network ours "$LOCKKEEPER_REDIS_IMAGE" sleep 12345 >/dev/null 2>&1
  docker pause still >/dev/null && echo "containers: $(docker ps --format '{{.Names}}' | sort | tr '\\n' ' ')"`;

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGTERM');
});

interface Run {
  readonly child: ChildProcess;
  /** Of its folder and its control groups. */
  readonly name: string;
  readonly said: Promise<string>;
  readonly ended: Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

function run(script: string): Run {
  const child = spawn(process.execPath, [MAIN, 'sh', '-c', script], {
    env: { ...process.env, LOCKKEEPER_IMAGES: 'redis' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  started.push(child);
  const said = once(child.stdout.setEncoding('utf8'), 'data').then(([text]) => String(text));
  const ended = once(child, 'close') as Run['ended'];
  return { child, name: `lockkeeper-${child.pid}-`, said, ended };
}

function left({ name }: Run): string[] {
  const folders = existsSync(runs) ? readdirSync(runs) : [];
  const groups = readdirSync('/sys/fs/cgroup').flatMap((each) => {
    const folder = join('/sys/fs/cgroup', each);
    return existsSync(join(folder, 'cgroup.procs')) ? readdirSync(folder) : [];
  });
  const commands = readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')];
    } catch {
      return [];
    }
  });
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  return [...folders, ...groups, ...commands, ...mounts].filter((each) => each.includes(name));
}

const nothingLeft = (of: Run) =>
  vi.waitFor(() => expect(left(of)).toEqual([]), { timeout: 60_000, interval: 100 });

it.each([
  ['succeeds', 'exit 0', 0],
  ['fails', 'exit 7', 7],
])('leaves nothing when its command %s', { timeout: 120_000 }, async (_, end, code) => {
  const one = run(`${START}\n${end}`);
  expect(await one.said).toBe('containers: busy still \n');
  expect(await one.ended).toEqual([code, null]);
  expect(left(one)).toEqual([]);
});

it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
  'leaves nothing after %s',
  { timeout: 120_000 },
  async (signal) => {
    const one = run(`${START}\nexec sleep 12345`);
    expect(await one.said).toBe('containers: busy still \n');
    expect(left(one)).not.toEqual([]);
    one.child.kill(signal);
    expect(await one.ended).toEqual([null, signal]);
    await nothingLeft(one);
  },
);

it('is alone among others: two at once with the same names', { timeout: 120_000 }, async () => {
  const both = [run(`${START}\nexec sleep 12345`), run(`${START}\nexec sleep 12345`)] as const;
  for (const one of both) expect(await one.said).toBe('containers: busy still \n');
  both[0].child.kill('SIGKILL');
  await nothingLeft(both[0]);
  expect(left(both[1])).not.toEqual([]);
  both[1].child.kill('SIGTERM');
  await both[1].ended;
  expect(left(both[1])).toEqual([]);
});
