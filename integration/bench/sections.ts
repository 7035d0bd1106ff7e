// The parts of `npm run bench`. Each measures, and tells its ratios, its table and what lies behind them.
import { say } from './command-line.ts';
import { rounded } from './figures.ts';
import { measureHandovers } from './handover/measure.ts';
import { handoverTable, summariseHandovers } from './handover/summary.ts';
import { measureHolds } from './holds/measure.ts';
import { holdsTable } from './holds/summary.ts';
import { measure, type Plan } from './throughput/measure.ts';
import { nameOf, summarise, throughputTable } from './throughput/summary.ts';

export interface Report {
  /** Of medians, by `peer@level`. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly aims: Readonly<Record<string, number>>;
  /** For people. */
  readonly table: string;
  /** For programs. */
  readonly lines: readonly object[];
  readonly servers: Readonly<Record<string, string>>;
}

export const SECTIONS = { throughput, handover, holds } as const satisfies Readonly<
  Record<string, (plan: Plan) => Promise<Report>>
>;

export type SectionName = keyof typeof SECTIONS;

async function throughput(plan: Plan): Promise<Report> {
  const { slices, servers } = await measure(plan, (inFlight, round) =>
    say(`throughput, ${inFlight} in flight, round ${round + 1} of ${plan.rounds} …`),
  );
  const lines = summarise(slices);
  const record = (value: (line: (typeof lines)[number]) => number | undefined) =>
    Object.fromEntries(
      lines.flatMap((line) => {
        const of = value(line);
        return of === undefined ? [] : [[nameOf(line), rounded(of)]];
      }),
    );
  return {
    ratios: record(({ ratio }) => ratio),
    aims: record(({ aim }) => aim),
    table: throughputTable(lines),
    lines,
    servers,
  };
}

async function handover(plan: Plan): Promise<Report> {
  const { handovers, server } = await measureHandovers(plan, (level, round) =>
    say(`handover, ${level} waiters, round ${round + 1} of ${plan.rounds} …`),
  );
  const lines = summariseHandovers(handovers);
  const ratios = lines.flatMap(({ name, ratio }) =>
    ratio === undefined ? [] : [[`handover:${name}`, rounded(ratio)] as const],
  );
  return {
    ratios: Object.fromEntries(ratios),
    aims: {},
    table: handoverTable(lines),
    lines,
    servers: { handover: server },
  };
}

async function holds(): Promise<Report> {
  const { lines, server } = await measureHolds((contestant, count) =>
    say(`holds, ${contestant}, ${count} …`),
  );
  const ratios = lines.flatMap(({ contestant, count, renewalsPerSecond }) => {
    const ours = lines.find((line) => line.contestant === 'lockkeeper' && line.count === count);
    if (contestant !== 'etcd3-lock' || ours === undefined || renewalsPerSecond === 0) return [];
    return [[`holds:${contestant}@${count}`, rounded(ours.renewalsPerSecond / renewalsPerSecond)] as const];
  });
  return {
    ratios: Object.fromEntries(ratios),
    aims: {},
    table: holdsTable(lines),
    lines,
    servers: { holds: server },
  };
}
