import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { alone } from './alone.mjs';

const fixture = fileURLToPath(new URL('../fixtures/alone.mjs', import.meta.url));
const PROCESSES = 6;

let dir: string;
let claims: string;
let log: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'lockkeeper-alone-'));
  [claims, log] = [join(dir, 'claims'), join(dir, 'log')];
});
afterEach(() => rm(dir, { recursive: true }));

/** A process id that was in use a moment ago. */
function deadPid(): number {
  const { pid } = spawnSync(process.execPath, ['--version']);
  return pid;
}

async function expectOneAtATime() {
  const children = Array.from({ length: PROCESSES }, () => spawn(process.execPath, [fixture, claims, log]));
  const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]));
  expect(codes).toEqual(Array(PROCESSES).fill(0));
  const lines = (await readFile(log, 'utf8')).trim().split('\n');
  expect(lines).toHaveLength(2 * PROCESSES);
  for (let i = 0; i < lines.length; i += 2) {
    expect(lines[i + 1]).toBe(lines[i]?.replace('enter', 'leave'));
  }
  expect(await readdir(claims)).toHaveLength(1);
}

test('processes work one at a time, and leave one claim behind', expectOneAtATime);

test('a dead process keeps nobody waiting', async () => {
  await mkdir(claims);
  await writeFile(join(claims, '7'), String(deadPid()));
  await expectOneAtATime();
});

test('whoever works is waited for', async () => {
  const order: string[] = [];
  let second: Promise<unknown> | undefined;
  await alone(claims, async () => {
    second = alone(claims, async () => order.push('second'));
    await once(spawn(process.execPath, ['--version']), 'exit');
    order.push('first');
  });
  await second;
  expect(order).toEqual(['first', 'second']);
});

test('failed work leaves the room free', async () => {
  await expect(alone(claims, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
  expect(await alone(claims, async () => 'free')).toBe('free');
});
