// The benchmark of the locks: `npm run bench`.
import { type Arguments, describeMachine, main, readArguments, say, watchMachine } from './command-line.ts';
import { type Report, SECTIONS, type SectionName } from './sections.ts';

const NAMES = Object.keys(SECTIONS) as SectionName[];

const USAGE = `Usage: npm run bench [-- options]

Measures locks against their peers, in turns, on servers that it starts itself. What carries over to another machine
are the ratios.

  --only A,B     these parts alone: ${NAMES.join(', ')}
  --rounds N     how often each is measured (7)
  --slice-ms N   for how long each time (1000)
  --json         write one JSON document to stdout
  --help         show this
`;

async function run({ only, json, ...plan }: Arguments<SectionName>): Promise<void> {
  const machineAfter = watchMachine();
  const reports = new Map<SectionName, Report>();
  for (const section of only) reports.set(section, await SECTIONS[section](plan));
  const all = [...reports.values()];
  const machine = machineAfter();
  const servers: Record<string, string> = Object.assign({}, ...all.map((report) => report.servers));
  const missing: Record<string, string> = Object.assign({}, ...all.map((report) => report.missing));
  for (const [peer, why] of Object.entries(missing)) say(`${peer} was left out: ${why}`);
  if (!json) {
    for (const { table } of all) process.stdout.write(`${table}\n\n`);
    process.stdout.write(`${describeMachine(machine)}\n`);
    process.stdout.write(`${[...new Set(Object.values(servers))].join(', ')}\n`);
    return;
  }
  const document = {
    ratios: Object.assign({}, ...all.map(({ ratios }) => ratios)),
    aims: Object.assign({}, ...all.map(({ aims }) => aims)),
    ...Object.fromEntries([...reports].map(([name, { lines }]) => [name, lines])),
    missing,
    machine: { ...machine, servers },
  };
  process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
}

await main((argv) => readArguments(argv, NAMES, { rounds: 7, sliceMs: 1_000 }), USAGE, run);
