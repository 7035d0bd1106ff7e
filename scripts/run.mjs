// The one entry behind the package scripts: sets up what a command needs, then runs it. Arguments, exit code and
// signals pass through; stdout belongs to the command, set-up speaks on stderr.

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { serversDir } from './setup/cache.mjs';
import { dieOf, forwardSignals, Interrupted, run, throwIfInterrupted } from './setup/child.mjs';
import { setUp } from './setup/index.mjs';
import { SetUpError, say } from './setup/say.mjs';
import { root } from './setup/workspace.mjs';
import { addTally, closingLine, readTally, withTally } from './tally.mjs';

/** Vitest and Biome colour what they write in CI even where nobody can see it. */
const coloured = Boolean(process.stdout.isTTY);

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null }} Ended */

/** @param {readonly string[]} args */
async function demo(args) {
  const servers = await setUp({ etcd: ['newest'] });
  for (const missing of [servers?.etcdMissing, servers?.postgresMissing]) {
    if (missing) say(`${missing}\nThe demo runs simulated without it.`);
  }
  const story = join(root, 'scripts', 'demo', 'main.ts');
  return node(['--conditions=@lockkeeper/source', '--import', 'tsx', story, ...args]);
}

/** @param {readonly string[]} args */
async function simulate(args) {
  await setUp({});
  const main = join(root, 'scripts', 'simulate.ts');
  return node(['--conditions=@lockkeeper/source', '--import', 'tsx', main, ...args]);
}

/** @param {readonly string[]} args */
async function matrix(args) {
  await setUpAll();
  const main = join(root, 'integration', 'guards', 'matrix', 'main.ts');
  return node(['--conditions=@lockkeeper/source', '--import', 'tsx', main, ...args]);
}

/**
 * On what is shipped: what compiles sources while they run makes them slower.
 *
 * @param {readonly string[]} args
 */
async function bench(args) {
  await setUpAll();
  const built = await node([bin('typescript', 'tsc'), '-b', join(root, 'packages', 'testkit')]);
  if (built.code !== 0) return built;
  const main = join(root, 'integration', 'bench', 'main.ts');
  return node(['--import', 'tsx', main, ...args]);
}

/** @param {readonly string[]} args */
async function benchGuards(args) {
  await setUpAll();
  const main = join(root, 'integration', 'guards', 'bench', 'main.ts');
  return node(['--conditions=@lockkeeper/source', '--import', 'tsx', main, ...args]);
}

/** @param {readonly string[]} command */
async function withContainers(command) {
  if (command.length === 0) throw new SetUpError('usage: npm run with:containers -- <command>');
  return besideEngine(command);
}

/** @param {readonly string[]} args */
const testContainers = (args) =>
  counted((tallyFile) =>
    besideEngine([process.execPath, ...vitestArgs(['containers'], args)], { LOCKKEEPER_TALLY: tallyFile }),
  );

/**
 * @param {readonly string[]} command
 * @param {NodeJS.ProcessEnv} [env]
 */
async function besideEngine(command, env = {}) {
  // The images are made of unpacked programs.
  await setUpAll({ route: 'unpacked' });
  const servers = process.env['LOCKKEEPER_SERVERS'] || 'container';
  const main = join(root, 'scripts', 'containers', 'main.mjs');
  return node([main, ...command], { LOCKKEEPER_SERVERS: servers, ...env });
}

/** @param {readonly string[]} args */
async function experiment(args) {
  await setUpAll();
  const main = join(root, 'integration', 'experiment', 'main.ts');
  return node(['--conditions=@lockkeeper/source', '--import', 'tsx', main, ...args]);
}

/**
 * Every server that anything is tested on.
 *
 * @param {Pick<import('./setup/index.mjs').Needs, 'browser' | 'route'>} [also]
 */
async function setUpAll(also = {}) {
  const servers = await setUp({ etcd: ['newest', 'oldest'], guards: true, ...also });
  if (!servers) return;
  const { etcdMissing, postgresMissing, guardsMissing, browserMissing } = servers;
  const all = [etcdMissing, postgresMissing, ...guardsMissing, browserMissing];
  const missing = all.filter((text) => text !== undefined);
  if (missing.length > 0) throw new SetUpError(missing.join('\n'));
}

/** @param {readonly string[]} args */
const test = (args) => vitest(['unit', 'integration', 'scripts'], args);

/** @param {readonly string[]} args */
const faults = (args) => vitest(['faults'], args);

/**
 * @param {readonly string[]} projects
 * @param {readonly string[]} args
 */
async function vitest(projects, args) {
  await setUpAll({ browser: projects.includes('integration') });
  return counted((tallyFile) => node(vitestArgs(projects, args), { LOCKKEEPER_TALLY: tallyFile }));
}

/**
 * @param {readonly string[]} projects
 * @param {readonly string[]} args
 */
const vitestArgs = (projects, args) => [
  join(root, 'node_modules', 'vitest', 'vitest.mjs'),
  'run',
  ...projects.flatMap((project) => ['--project', project]),
  ...(coloured ? [] : ['--no-color']),
  ...args,
];

/**
 * Runs tests that write down their counts, and closes with the sum: on stdout, or for the run this one is part of.
 *
 * @param {(tallyFile: string) => Promise<Ended>} work
 */
const counted = (work) =>
  withTally(async (tallyFile) => {
    const ended = await work(tallyFile);
    const tally = await readTally(tallyFile);
    // What ended badly without a failed test, ended before it could count one.
    if (ended.code !== 0 && tally.failed === 0) tally.failed = 1;
    const outer = process.env['LOCKKEEPER_TALLY'];
    if (outer) await addTally(outer, tally);
    else process.stdout.write(`${closingLine(tally)}\n`);
    return ended;
  });

/** @param {readonly string[]} args */
async function newcomer(args) {
  if (args.length > 0) throw new SetUpError(`newcomer takes no arguments, but got: ${args.join(' ')}`);
  const servers = await setUp({ etcd: ['newest'] });
  if (servers?.etcdMissing) throw new SetUpError(servers.etcdMissing);
  return counted(async (tallyFile) => {
    const ended = await node([join(root, 'scripts', 'newcomer.mjs')]);
    const ok = ended.code === 0;
    await addTally(tallyFile, { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 });
    return ended;
  });
}

/** @param {readonly string[]} args */
async function check(args) {
  if (args.length > 0) throw new SetUpError(`check takes no arguments, but got: ${args.join(' ')}`);
  await setUp({});
  const steps = [
    { what: 'types', work: () => node([bin('typescript', 'tsc'), '-b']) },
    {
      what: 'lint, format and arrows',
      work: () =>
        node([
          bin('@biomejs/biome', 'biome'),
          'ci',
          '--error-on-warnings',
          ...(coloured ? [] : ['--colors=off']),
        ]),
    },
    { what: 'packages', work: () => node([join(root, 'scripts', 'check-packages.mjs')]) },
  ];
  return counted(async (tallyFile) => {
    /** @type {Ended} */
    let worst = { code: 0, signal: null };
    for (const { what, work } of steps) {
      process.stdout.write(`\n${what}\n`);
      const ended = await work();
      const ok = ended.code === 0;
      await addTally(tallyFile, { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 });
      if (!ok) worst = ended;
      if (ended.signal) break;
    }
    return worst;
  });
}

/** @param {readonly string[]} args */
async function format(args) {
  await setUp({});
  return node([bin('@biomejs/biome', 'biome'), 'check', '--write', ...args]);
}

/** @param {readonly string[]} args */
async function build(args) {
  await setUp({});
  return node([bin('typescript', 'tsc'), '-b', ...args]);
}

/**
 * @param {string} packageName
 * @param {string} program
 */
const bin = (packageName, program) => join(root, 'node_modules', packageName, 'bin', program);

/**
 * Runs Node with its end tied to ours: see with-runner.mjs.
 *
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
function node(args, env = {}) {
  const tie = pathToFileURL(join(root, 'scripts', 'with-runner.mjs')).href;
  return run(process.execPath, ['--import', tie, ...args], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    env: {
      LOCKKEEPER_SERVER_CACHE: serversDir,
      // It would announce in every process that it will leave Node 20 one day.
      AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
      ...process.env,
      // Also where an engine answers: what is done to processes here cannot all be done to containers.
      LOCKKEEPER_SERVERS: process.env['LOCKKEEPER_SERVERS'] || 'env,path,unpacked',
      ...env,
      LOCKKEEPER_RUNNER: String(process.pid),
    },
  });
}

/** @type {Record<string, (args: readonly string[]) => Promise<Ended>>} */
const commands = {
  demo,
  simulate,
  matrix,
  experiment,
  bench,
  'bench:guards': benchGuards,
  test,
  faults,
  newcomer,
  'test:containers': testContainers,
  'with:containers': withContainers,
  check,
  format,
  build,
};

/** @param {readonly string[]} argv */
async function main([name = '', ...args]) {
  const command = commands[name];
  if (!command) {
    throw new SetUpError(`usage: node scripts/run.mjs ${Object.keys(commands).join(' | ')} [arguments]`);
  }
  const ended = await command(args);
  throwIfInterrupted();
  if (ended.signal) dieOf(ended.signal);
  else process.exitCode = ended.code ?? 1;
}

forwardSignals();
try {
  await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof Interrupted) dieOf(error.signal);
  else if (error instanceof SetUpError) {
    say(error.message);
    process.exitCode = 1;
  } else throw error;
}
