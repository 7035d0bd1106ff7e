import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { TestkitError } from './errors.ts';

/** `gone` also stands for a process that ended and has not been reaped yet. */
export type ProcessState = 'running' | 'stopped' | 'gone';

interface ProcessRow {
  readonly parent: number;
  readonly state: ProcessState;
}

/**
 * SIGSTOPs the process and everything it started, and resolves when the kernel reports each of them
 * stopped, so that nothing of it runs any more.
 * @throws {@link TestkitError} `not-running`
 */
export async function pauseTree(pid: number): Promise<void> {
  signal(pid, 'SIGSTOP');
  // A child forked before its parent was stopped shows up in a later round.
  for (let waits = 0; ; ) {
    const table = processTable();
    const running = treeOf(pid, table).filter((member) => table.get(member)?.state === 'running');
    if ((table.get(pid)?.state ?? 'gone') === 'gone') {
      throw new TestkitError('not-running', `process ${pid} cannot be paused: it has ended`);
    }
    if (running.length === 0) return;
    for (const member of running) signal(member, 'SIGSTOP');
    if (++waits > 5_000) throw new TestkitError('timeout', `process ${pid} did not stop within 5 s`);
    await sleep(1);
  }
}

/**
 * Resolves when the kernel reports the process stopped, by whomever.
 * @throws {@link TestkitError} `not-running`, `timeout`
 */
export async function untilStopped(pid: number): Promise<void> {
  for (let waits = 0; ; waits++) {
    const state = processState(pid);
    if (state === 'stopped') return;
    if (state === 'gone') throw new TestkitError('not-running', `process ${pid} ended instead of stopping`);
    if (waits > 5_000) throw new TestkitError('timeout', `process ${pid} did not stop within 5 s`);
    await sleep(1);
  }
}

/** SIGCONTs the process and everything it started. */
export function resumeTree(pid: number): void {
  // Children first: a parent that wakes before them could take them for hung.
  for (const member of treeOf(pid).reverse()) signal(member, 'SIGCONT');
}

/**
 * SIGKILLs the process and everything it started. Where it has ended already, nothing happens.
 * @returns all of them, for `untilGone`.
 */
export function killTree(pid: number): number[] {
  // Stopped first, it starts nothing more while the others are counted.
  signal(pid, 'SIGSTOP');
  const tree = treeOf(pid);
  for (const member of tree) signal(member, 'SIGKILL');
  return tree;
}

/**
 * Resolves when none of the processes runs any more.
 * @throws {@link TestkitError} `timeout` after 10 s.
 */
export async function untilGone(pids: readonly number[]): Promise<void> {
  for (let waits = 0; ; waits++) {
    const left = pids.filter((pid) => processState(pid) !== 'gone');
    if (left.length === 0) return;
    if (waits > 5_000)
      throw new TestkitError('timeout', `processes ${left.join(', ')} did not end within 10 s`);
    await sleep(2);
  }
}

/** Sends a signal. @returns false where the process has ended. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

/** What the kernel says about one process, all of its threads included. */
export function processState(pid: number): ProcessState {
  if (process.platform !== 'linux') return processTable().get(pid)?.state ?? 'gone';
  const row = readStat(`/proc/${pid}/stat`);
  return row === undefined ? 'gone' : stateOfThreads(pid, row.state);
}

/** The process and all its descendants, ancestors first. */
export function treeOf(pid: number, table = processTable()): number[] {
  const tree = [pid];
  for (const parent of tree) {
    for (const [child, row] of table) if (row.parent === parent) tree.push(child);
  }
  return tree.filter((member) => table.has(member));
}

function processTable(): Map<number, ProcessRow> {
  if (process.platform !== 'linux') return processTableOfPs();
  const table = new Map<number, ProcessRow>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    const row = Number.isInteger(pid) ? readStat(`/proc/${pid}/stat`) : undefined;
    if (row !== undefined) table.set(pid, { ...row, state: stateOfThreads(pid, row.state) });
  }
  return table;
}

/** A process counts as stopped only when its last thread is. */
function stateOfThreads(pid: number, leader: ProcessState): ProcessState {
  if (leader !== 'stopped') return leader;
  const threads = attempt(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  const allStopped = threads.every((thread) => {
    return readStat(`/proc/${pid}/task/${thread}/stat`)?.state !== 'running';
  });
  return allStopped ? 'stopped' : 'running';
}

function readStat(file: string): ProcessRow | undefined {
  const text = attempt(() => readFileSync(file, 'latin1'));
  if (text === undefined) return undefined;
  // `pid (name) state parent …`, and the name may hold anything.
  const [letter, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(parent), state: stateOf(letter) };
}

function processTableOfPs(): Map<number, ProcessRow> {
  const table = new Map<number, ProcessRow>();
  const text = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,state='], { encoding: 'latin1' });
  for (const line of text.split('\n')) {
    const [pid, parent, letter] = line.trim().split(/\s+/);
    if (letter !== undefined) table.set(Number(pid), { parent: Number(parent), state: stateOf(letter[0]) });
  }
  return table;
}

function stateOf(letter: string | undefined): ProcessState {
  if (letter === 'T' || letter === 't') return 'stopped';
  return letter === 'Z' || letter === 'X' ? 'gone' : 'running';
}

/** Processes end between the listing and the look; that is no error. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
