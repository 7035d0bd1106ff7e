import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EtcdServer, startEtcd } from '../etcd-server.ts';
import type { FileFault } from '../fixtures/file-worker.ts';
import { checkHistory } from '../history/checker.ts';
import { TemporaryFolder } from '../owned-server.ts';
import { renderTimelinePage } from '../timeline/page.ts';
import { type DrillOptions, lateWriteDrill } from './late-write-drill.ts';

const WORKER = new URL('../fixtures/file-worker.ts', import.meta.url);

let etcd: EtcdServer;
const folder = new TemporaryFolder('lockkeeper-drill-');
const file = join(folder.path, 'log');
beforeAll(async () => {
  etcd = await startEtcd();
});
afterAll(async () => {
  await etcd?.stop();
  await folder.remove();
});

const drill = (does: FileFault, pausePoints?: readonly string[]) =>
  lateWriteDrill({
    worker: WORKER,
    resource: { reset: () => writeFile(file, ''), read: () => readFile(file, 'utf8') },
    etcd,
    pausePoints,
    data: { file, does },
    timeoutMs: 20_000,
  });

describe('lateWriteDrill', { timeout: 120_000 }, () => {
  it('finds a late write that destroys nothing', async () => {
    const report = await drill('appends');
    expect(report).toMatchObject({ verdict: 'exposed', lostUpdates: [] });
    expect(report.staleWrites).toEqual([expect.stringMatching(/^first-/)]);
    expect(report.points.map(({ point }) => point)).toEqual(['after the check']);
    expect(checkHistory(report.points[0]?.history ?? [])).toEqual([
      expect.objectContaining({ kind: 'overlap' }),
    ]);
    expect(renderTimelinePage(report.timeline)).toContain('exposed: accepted late: first-');
  });

  it('is inconclusive where the first ended', async () => {
    const report = await drill('exits when late');
    expect(report.points).toMatchObject([{ verdict: 'inconclusive' }]);
    expect(report.points[0]?.reason).toMatch(/did not come to its end: .*exit code 3/);
    expect(report.verdict).toBe('inconclusive');
  });

  it('is inconclusive where a point is never reached, or nothing was held there yet', async () => {
    const report = await drill('looks first', ['nowhere', 'before the lock', 'after the check']);
    expect(report.points.map(({ verdict }) => verdict)).toEqual([
      'inconclusive',
      'inconclusive',
      'protected',
    ]);
    expect(report.points[0]?.reason).toMatch(/run ended \(acknowledged\) and had not paused there/);
    expect(report.points[1]?.reason).toMatch(/held no lock of Lockkeeper when it paused there/);
    expect(report.points[2]?.reason).toMatch(/first worker's update is not there: unknown, .*lost/);
    expect(report.verdict).toBe('inconclusive');
    expect(report.timeline.acts).toHaveLength(3);
  });

  it.each([
    ['no lock was taken', 'takes no lock', /without a pause the first run acquired no lock of Lockkeeper/],
    [
      'the updates are not in the storage',
      'forgets',
      /resource\.read\(\) gave ""; expected the updates first-/,
    ],
  ] as const)('fails where already without a pause %s', async (_, does, message) => {
    await expect(drill(does)).rejects.toMatchObject({
      code: 'drill-failed',
      message: expect.stringMatching(message),
    });
  });

  it('says what is wrong with its options', async () => {
    await expect(drill('appends', [])).rejects.toThrow(
      'lateWriteDrill: no pause point: pausePoints is empty',
    );
    const noUrl = drill('appends', ['in flight']);
    await expect(noUrl).rejects.toThrow('the point "in flight" needs resource.url');
    const worker = new URL('../deferred.ts', import.meta.url);
    const noRun = lateWriteDrill({ worker, etcd, resource: { reset: () => {}, read: () => '' } });
    await expect(noRun).rejects.toMatchObject({
      code: 'drill-failed',
      message: expect.stringMatching(/the module was not loaded: [\s\S]*exports no function "run"/),
    });
  });

  it.each([
    [{ how: 'wait' }, /how is "wait"; expected sigstop, container, block-event-loop/],
    [{ pausePoints: 'after the check' }, /pausePoints is "after the check"; expected a list/],
    [{ patienceMs: 100 }, /patienceMs is 100; expected more than ttlMs, which is 2000/],
    [{ patienceMs: Number.NaN }, /patienceMs is NaN/],
    [{ timeoutMs: '5' }, /timeoutMs is "5"/],
    [{ worker: undefined }, /worker is "undefined"/],
    [{ resource: {} }, /resource\.reset is undefined; expected a function/],
    [
      { resource: { reset() {}, read() {}, url: 'nonsense' } },
      /resource\.url is "nonsense"; expected a port in it/,
    ],
    [{ data: () => 1 }, /first cannot be told that: .*could not be cloned/],
  ])('refuses %o', async (options, message) => {
    const resource = { reset: () => {}, read: () => '' };
    const refused = lateWriteDrill({ worker: WORKER, etcd, resource, ...options } as unknown as DrillOptions);
    await expect(refused).rejects.toMatchObject({
      code: 'invalid-option',
      message: expect.stringMatching(message),
    });
  });

  it('names what read() gave, where that is no state', async () => {
    const reset = () => writeFile(file, '');
    const resource = { reset, read: () => null as never };
    const data = { file, does: 'appends' };
    await expect(lateWriteDrill({ worker: WORKER, resource, etcd, data })).rejects.toThrow(
      'what resource.read() gave is null; expected a list of updates, a text or a number',
    );
  });
});
