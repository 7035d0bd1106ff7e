import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { Crew } from '../../scripts/simulation/crew.ts';
import { makeMutant, mutatedFiles } from './mutant.ts';
import { mutation, mutations } from './mutations.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** For a machine whose cores are all at other work. */
const LONG = { timeout: 300_000 };

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `npm run simulate -- …`, without npm. */
function simulate(...args: readonly string[]): Promise<Ran> {
  const command = [
    '--conditions=@lockkeeper/source',
    '--import',
    'tsx',
    join('scripts', 'simulate.ts'),
    ...args,
  ];
  return new Promise((resolve) => {
    execFile(process.execPath, command, { cwd: root, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('the simulation', () => {
  test('300 seeds break no promise, and are no idle worlds', LONG, async () => {
    await using crew = await Crew.start(2);
    const { tally, violations } = await crew.play({ from: 1, count: 300 });
    expect(violations).toEqual([]);
    expect(tally.seeds).toBe(300);
    expect(tally.grants).toBeGreaterThan(3_000);
    expect(tally.losses).toBeGreaterThan(200);
  });

  test('a seed gives the same trace, byte for byte, in every process', LONG, async () => {
    await using one = await Crew.start(1);
    await using other = await Crew.start(1);
    // The second process has played something else before.
    await other.play({ from: 500, count: 3 });
    for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const { trace } = await one.trace(seed);
      expect(trace.length).toBeGreaterThan(50);
      expect((await other.trace(seed)).trace.join('\n')).toBe(trace.join('\n'));
    }
  });
});

// The runs that find them take long and are not part of every check; what they need is.
test.each(mutations)('the sources have the text that "$name" changes', async (each) => {
  expect((await mutatedFiles(each)).size).toBeGreaterThan(0);
});

describe('npm run simulate', () => {
  test('tells how many seeds it played, how fast, and what it found', async () => {
    const { code, stdout } = await simulate('--seeds', '5', '--workers', '1');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^\d+\.\d seeds per second; \d+ grants, \d+ losses, \d+\.\d hours simulated\n5 seeds, 0 violations\n$/,
    );
  });

  test('--json writes one document', async () => {
    const { code, stdout } = await simulate('--seeds', '5', '--from', '40', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ from: 40, seeds: 5, violations: [] });
  });

  test('--seed prints the trace in columns', async () => {
    const { code, stdout } = await simulate('--seed', '1');
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.at(-1)).toBe('1 seed, 0 violations');
    for (const line of lines.slice(0, -1)) expect(line).toMatch(/^ *\d+\.\d{4} s {2}[a-z0-9-]+ +\S/);
  });

  test(
    'a violation is shown as a short trace with its seed, and ends it with 1; its seed alone replays it',
    LONG,
    async () => {
      const core = await makeMutant(mutation('granted on the predecessor’s deletion alone'), 'simulation');
      // Which seeds find it changes with every change of core.
      const search = await simulate('--seeds', '100', '--core', core, '--json');
      const { violations } = JSON.parse(search.stdout) as {
        violations: { seed: number; kind: string; atMs: number }[];
      };
      // One that takes long to show, so that there is something to leave out.
      const [first] = violations
        .filter(({ kind }) => kind === 'granted-out-of-turn')
        .sort((a, b) => b.atMs - a.atMs);
      const { code, stdout } = await simulate('--from', String(first?.seed), '--seeds', '1', '--core', core);
      expect(code).toBe(1);
      expect(stdout).toMatch(/\n1 seed, 1 violation\n$/);
      const shown =
        /^seed (?<seed>\d+): granted-out-of-turn\n.*again: npm run simulate -- --seed \d+\n/ms.exec(stdout);
      const seed = String(shown?.groups?.['seed']);
      const again = await simulate('--seed', seed, '--core', core);
      expect(again).toEqual({ code: 1, stdout: `${shown?.[0]}\n1 seed, 1 violation\n`, stderr: '' });
      const full = await simulate('--seed', seed, '--core', core, '--full');
      expect(full.code).toBe(1);
      expect(again.stdout.length).toBeLessThan(full.stdout.length / 2);
    },
  );

  test('refuses arguments that it does not have', async () => {
    const { code, stdout, stderr } = await simulate('--seeds', 'many');
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(stderr).toContain('--seeds is "many"; expected a whole number from 1');
  });
});
