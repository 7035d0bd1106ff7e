// The parts of `npm run bench`. Each measures, and tells its ratios, its table and what lies behind them.
import { say } from './command-line.ts';
import { rounded } from './figures.ts';
import { measureHandovers } from './handover/measure.ts';
import { handoverTable, summariseHandovers } from './handover/summary.ts';
import { measureHolds } from './holds/measure.ts';
import { holdsTable, summariseHolds } from './holds/summary.ts';
import { measureNeighbour } from './neighbour/measure.ts';
import { neighbourTable, summariseNeighbour } from './neighbour/summary.ts';
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
  /** Which peers could not be measured, and why. */
  readonly missing: Readonly<Record<string, string>>;
}

export const SECTIONS = { throughput, handover, holds, neighbour } as const satisfies Readonly<
  Record<string, (plan: Plan) => Promise<Report>>
>;

export type SectionName = keyof typeof SECTIONS;

async function throughput(plan: Plan): Promise<Report> {
  const { slices, servers, missing } = await measure(plan, (inFlight, round) =>
    say(`throughput, ${inFlight} in flight, round ${round + 1} of ${plan.rounds} …`),
  );
  const lines = summarise(slices);
  const named = lines.map((line) => ({ name: nameOf(line), value: line.ratio, aim: line.aim }));
  return { ...figuresOf(named), table: throughputTable(lines), lines, servers, missing };
}

async function handover(plan: Plan): Promise<Report> {
  const { handovers, servers, missing } = await measureHandovers(plan, (level, round) =>
    say(`handover, ${level} waiters, round ${round + 1} of ${plan.rounds} …`),
  );
  const lines = summariseHandovers(handovers);
  const named = lines.map(({ name, ratio, aim }) => ({ name: `handover:${name}`, value: ratio, aim }));
  return { ...figuresOf(named), table: handoverTable(lines), lines, servers, missing };
}

async function holds(): Promise<Report> {
  const { lines, server } = await measureHolds((count) => say(`holds, ${count} …`));
  const figures = summariseHolds(lines);
  const servers = { holds: server };
  return { ...figuresOf(figures), table: holdsTable(lines, figures), lines, servers, missing: {} };
}

async function neighbour(plan: Plan): Promise<Report> {
  const { all, server } = await measureNeighbour(plan, (round) =>
    say(`neighbour, round ${round + 1} of ${plan.rounds} …`),
  );
  const lines = summariseNeighbour(all);
  const named = lines.map(({ name, ratio, aim }) => ({ name, value: ratio, aim }));
  const servers = { neighbour: server };
  return { ...figuresOf(named), table: neighbourTable(lines), lines, servers, missing: {} };
}

interface Named {
  readonly name: string;
  readonly value: number | undefined;
  readonly aim: number | undefined;
}

function figuresOf(named: readonly Named[]): Pick<Report, 'ratios' | 'aims'> {
  const pick = (of: (each: Named) => number | undefined) =>
    Object.fromEntries(
      named.flatMap((each) => {
        const value = of(each);
        return value === undefined ? [] : [[each.name, value]];
      }),
    );
  return {
    ratios: pick(({ value }) => (value === undefined ? undefined : rounded(value))),
    aims: pick(({ aim }) => aim),
  };
}
