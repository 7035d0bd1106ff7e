import { join } from 'node:path';
import { expect, test } from 'vitest';
import { summariseHandovers } from './handover/summary.ts';
import type { HoldsLine } from './holds/measure.ts';
import { summariseHolds } from './holds/summary.ts';
import { LineProcess } from './line-process.ts';
import { summariseNeighbour } from './neighbour/summary.ts';
import type { ContestantName } from './throughput/contestants.ts';
import { nameOf, summarise } from './throughput/summary.ts';

const pick = (lines: readonly { readonly name: string; readonly ratio: number | undefined }[]) =>
  Object.fromEntries(lines.flatMap(({ name, ratio }) => (ratio === undefined ? [] : [[name, ratio]])));

test('throughput: a ratio a round, against ours of that round, and the median of them', () => {
  const rates: Partial<Record<ContestantName, readonly number[]>> = {
    lockkeeper: [1_000, 100, 2_000],
    bare: [1_200, 110, 2_000],
    'redlock-aof': [500, 100, 500],
  };
  const slices = Object.entries(rates).flatMap(([contestant, of]) =>
    of.map((perSecond, round) => {
      return {
        contestant: contestant as ContestantName,
        inFlight: 1_000,
        round,
        perSecond,
        latenciesMs: [1],
      };
    }),
  );
  const lines = summarise(slices).filter(({ inFlight }) => inFlight === 1_000);
  expect(pick(lines.map((line) => ({ ...line, name: nameOf(line) })))).toEqual({
    'bare@1000': 1.1,
    'redlock-aof@1000': 2,
  });
});

test('hand-over: who did not take part has no line, and who handed nothing over no ratio', () => {
  const lines = summariseHandovers([
    { level: '2', contestant: 'lockkeeper', round: 0, latenciesMs: [1, 2, 3] },
    { level: '2', contestant: 'etcd3-lock', round: 0, latenciesMs: [20] },
    { level: '100', contestant: 'lockkeeper', round: 0, latenciesMs: [4] },
    { level: '100', contestant: 'etcd3-lock', round: 0, latenciesMs: [] },
  ]);
  expect(pick(lines)).toEqual({ 'etcd3-lock@2': 0.1 });
  expect(lines.filter(({ contestant }) => contestant === 'go-mutex')).toEqual([]);
});

test('holds: many beside one, and KiB each', () => {
  const line = (contestant: HoldsLine['contestant'], count: number, kib: number, renewals: number) => {
    const [renewalsPerSecond, cpuShare] = [renewals, renewals / 10];
    return { contestant, count, renewalsPerSecond, cpuShare, bytesEach: kib * 1_024 };
  };
  const figures = summariseHolds([
    line('lockkeeper', 1, 300, 0.2),
    line('waiters', 1, 300, 0.2),
    line('lockkeeper', 10_000, 0.5, 0.3),
    line('waiters', 10_000, 1.5, 0.2),
    line('etcd3-lock', 10_000, 11, 3_000),
  ]);
  const rounded = figures.map(({ name, value, aim }) => [name, Number(value.toFixed(4)), aim]);
  expect(rounded).toEqual([
    ['holds:renewals@10000', 1.5, 1],
    ['holds:cpu@10000', 1.5, 1],
    ['holds:kib@10000', 0.5, 1],
    ['waiters:kib@10000', 1.5, 2],
    ['holds:etcd3-lock@10000', 0.0001, undefined],
  ]);
});

test('a neighbour: its slowest puts, batched to not', () => {
  const lines = summariseNeighbour([
    { load: 'none', round: 0, pairsPerSecond: 0, latenciesMs: [1] },
    { load: 'unbatched', round: 0, pairsPerSecond: 100, latenciesMs: [4] },
    { load: 'batched', round: 0, pairsPerSecond: 900, latenciesMs: [6] },
  ]);
  expect(pick(lines)).toEqual({ 'neighbour:none@1000': 6, 'neighbour:unbatched@1000': 1.5 });
});

test('a process that ends, or never began, is an error that says so', async () => {
  await expect(LineProcess.start(join(import.meta.dirname, 'no-such-program'), [])).rejects.toThrow(
    /did not answer: .*ENOENT/,
  );
  const once = `process.stdout.write('"ready"\\n'); process.stdin.once('data', () => process.exit(3));`;
  await using started = await LineProcess.start(process.execPath, ['--eval', once]);
  await expect(started.ask({})).rejects.toThrow('did not answer: it ended with 3');
});
