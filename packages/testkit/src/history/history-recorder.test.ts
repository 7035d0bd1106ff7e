import { LockkeeperError } from '@lockkeeper/core';
import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import { TestkitError } from '../errors.ts';
import { type HistoryEvent, mergeHistories } from './history.ts';
import { HistoryRecorder, historyFromMessages, historyMessage } from './history-recorder.ts';
import { historyFromJsonLines, historyToJsonLines } from './history-text.ts';

const token = new FencingToken({ lineage: 'L', revision: 2n ** 60n, acquisition: 'a' });

function steps(): { readonly recorder: HistoryRecorder; readonly now: { ms: number } } {
  const now = { ms: 0 };
  return { now, recorder: new HistoryRecorder({ now: () => now.ms }) };
}

describe('a history', () => {
  it('holds operations of processes and what befell them, with the times of its clock', () => {
    const { now, recorder } = steps();
    const a = recorder.process('A');
    const acquire = a.invoke({ f: 'acquire', lock: 'job' });
    now.ms = 5;
    acquire.ok({ token });
    a.info({ f: 'loss', lock: 'job', token, cause: 'expired' });
    recorder.process('B').invoke({ f: 'write', resource: 'account', token: 7n, entry: 'e' }).unknown('reset');
    expect(recorder.history).toEqual([
      { type: 'invoke', atMs: 0, process: 'A', op: 1, f: 'acquire', lock: 'job' },
      { type: 'ok', atMs: 5, process: 'A', op: 1, token: `L:${2n ** 60n}:a` },
      { type: 'info', atMs: 5, process: 'A', f: 'loss', lock: 'job', token: `${token}`, cause: 'expired' },
      {
        type: 'invoke',
        atMs: 5,
        process: 'B',
        op: 2,
        f: 'write',
        resource: 'account',
        token: '7',
        entry: 'e',
      },
      { type: 'unknown', atMs: 5, process: 'B', op: 2, error: 'reset' },
    ]);
  });

  it('comes back from JSON lines as it was', () => {
    const { recorder } = steps();
    const a = recorder.process('A "quoted"\n');
    a.invoke({ f: 'read', resource: 'r', final: true }).ok({ entries: ['x', '\u2028'], inOrder: true });
    a.info({ f: 'fault', name: 'disk full' });
    const text = historyToJsonLines(recorder.history);
    expect(text.trimEnd().split('\n')).toHaveLength(3);
    expect(historyFromJsonLines(`${text}\n`)).toEqual(recorder.history);
    expect(JSON.parse(JSON.stringify(recorder.history))).toEqual(recorder.history);
  });

  it.each([
    ['{', 'line 2'],
    ['7', 'type is undefined'],
    ['{"type":"info","f":"pause","process":"A"}', 'atMs is undefined'],
    ['{"type":"info","f":"pause","process":"A","atMs":null}', 'atMs is null'],
    ['{"type":"info","f":"nap","process":"A","atMs":0}', 'f is "nap"'],
    ['{"type":"ok","process":"A","atMs":0}', 'op is undefined'],
    ['{"type":"invoke","f":"acquire","op":1,"process":"A","atMs":0}', 'lock is undefined'],
    ['{"type":"invoke","f":"claim","resource":"r","op":1,"process":"A","atMs":0}', 'token is undefined'],
    ['{"type":"ok","op":1,"process":"A","atMs":0,"token":7}', 'token is 7'],
    ['{"type":"ok","op":1,"process":"A","atMs":0,"entries":[1]}', 'entries is [1]'],
  ])('is not read from %s', (line, why) => {
    const read = () => historyFromJsonLines(`\n${line}\n`);
    expect(read).toThrow(TestkitError);
    expect(read).toThrow(why);
  });

  it('takes an operation for one that failed only where an error says so', async () => {
    const { recorder } = steps();
    const write = async (error: unknown): Promise<string | undefined> => {
      const thrown = recorder.process('A').run({ f: 'write', resource: 'r' }, () => Promise.reject(error));
      await expect(thrown).rejects.toBe(error);
      return recorder.history.at(-1)?.type;
    };
    expect(await write(new GuardError('stale-token', ''))).toBe('fail');
    expect(await write(new GuardError('retry', ''))).toBe('fail');
    expect(await write(new GuardError('unknown', ''))).toBe('unknown');
    expect(await write(new LockkeeperError('wait-timeout', ''))).toBe('fail');
    expect(await write(new LockkeeperError('unreachable', ''))).toBe('unknown');
    expect(await write(new LockkeeperError('lost', ''))).toBe('unknown');
    expect(await write(new Error('socket hang up'))).toBe('unknown');
    const hold = await recorder.process('A').run(
      { f: 'acquire', lock: 'l' },
      () => ({ token }),
      ({ token }) => ({ token }),
    );
    expect(hold.token).toBe(token);
    expect(recorder.history.at(-1)).toMatchObject({ type: 'ok', token: `${token}` });
  });

  it('records one end of an operation', () => {
    const { recorder } = steps();
    const open = recorder.process('A').invoke({ f: 'release', lock: 'l' });
    open.ok();
    expect(() => open.fail()).toThrow('release 1 of "A" has ended already');
    expect(recorder.history).toHaveLength(2);
  });

  it('travels from workers in their messages', () => {
    const log = (process: string, times: readonly number[]) => {
      const messages: { atMs: number; message: ReturnType<typeof historyMessage> }[] = [];
      const recorder = new HistoryRecorder({
        now: () => times[messages.length] ?? Number.NaN,
        onEvent: (event) => messages.push({ atMs: 0, message: historyMessage(event) }),
      });
      recorder.process(process).invoke({ f: 'acquire', lock: 'l' }).ok({ token });
      return [...messages, { atMs: 0, message: { type: 'ready' } }];
    };
    const [a, b] = [log('A', [1, 4]), log('B', [2, 3])];
    expect(historyFromMessages(a, b).map(({ process, type }) => `${process} ${type}`)).toEqual([
      'A invoke',
      'B invoke',
      'B ok',
      'A ok',
    ]);
    // Or by arrival, in one recorder.
    const parent = new HistoryRecorder();
    expect([...b, ...a].map(({ message }) => parent.take(message))).toEqual([
      true,
      true,
      false,
      true,
      true,
      false,
    ]);
    expect(parent.history.map(({ atMs }) => atMs)).toEqual([2, 3, 1, 4]);
  });

  it('merges by time, and at one time counts nothing as done before what was invoked then', () => {
    const at = (process: string, type: 'invoke' | 'ok', atMs: number) =>
      ({ process, type, atMs, op: 1, f: 'acquire', lock: 'l' }) as HistoryEvent;
    const merged = mergeHistories([at('A', 'invoke', 0), at('A', 'ok', 5)], [at('B', 'invoke', 5)]);
    expect(merged.map(({ process, type }) => `${process} ${type}`)).toEqual(['A invoke', 'B invoke', 'A ok']);
  });
});
