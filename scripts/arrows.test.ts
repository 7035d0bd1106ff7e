import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from './setup/workspace.mjs';

// The linter's settings are the only place where the arrows between packages and folders are written down, so
// this file asks the linter: each line is a file of a made-up workspace and the rule that must reject it.

const IMPORTS = 'lint/style/noRestrictedImports';
const GLOBALS = 'lint/style/noRestrictedGlobals';
const PROPERTIES = 'lint/nursery/noJsRestrictedProperties';
const FLOATING = 'lint/nursery/noFloatingPromises';
const CYCLES = 'lint/suspicious/noImportCycles';
const EXTENSIONS = 'lint/correctness/useImportExtensions';
const UNDECLARED = 'lint/correctness/noUndeclaredDependencies';
const CONSOLE = 'lint/suspicious/noConsole';

const imports = (specifier: string) => `import { x } from '${specifier}';\nexport const y = x;\n`;

const CORE = 'packages/core/src';
const GUARD = 'packages/resource-guard/src';

const rejected: [rule: string, file: string, source: string][] = [
  [IMPORTS, 'packages/fencing/src/fs.ts', imports('node:fs')],
  [IMPORTS, 'packages/fencing/src/core.ts', imports('@lockkeeper/core')],
  [IMPORTS, 'packages/fencing/src/lib.ts', imports('etcd3')],
  [IMPORTS, `${CORE}/etcd3.ts`, imports('etcd3')],
  [IMPORTS, `${CORE}/grpc.ts`, imports('@grpc/grpc-js')],
  [IMPORTS, `${CORE}/cockatiel.ts`, imports('cockatiel')],
  [IMPORTS, `${CORE}/pg.ts`, imports('pg')],
  [IMPORTS, `${CORE}/testkit.ts`, imports('@lockkeeper/testkit')],
  [IMPORTS, `${CORE}/guard.ts`, imports('@lockkeeper/resource-guard/postgres')],
  [IMPORTS, `${CORE}/by-path.ts`, imports('../../fencing/src/index.ts')],
  [IMPORTS, `${CORE}/timers.ts`, imports('node:timers/promises')],
  [IMPORTS, `${CORE}/perf.ts`, imports('node:perf_hooks')],
  [IMPORTS, `${CORE}/coordinator/up-session.ts`, imports('../session/session.ts')],
  [IMPORTS, `${CORE}/coordinator/memory/up-lock.ts`, imports('../../lock/lock.ts')],
  [IMPORTS, `${CORE}/coordinator/memory/etcd3.ts`, imports('etcd3')],
  [IMPORTS, `${CORE}/coordinator/memory/side.ts`, imports('../etcd/rpc.ts')],
  [IMPORTS, `${CORE}/coordinator/etcd/up-session.ts`, imports('../../session/session.ts')],
  [IMPORTS, `${CORE}/coordinator/etcd/up-keeper.ts`, imports('../../keeper.ts')],
  [IMPORTS, `${CORE}/coordinator/etcd/pg.ts`, imports('pg')],
  [IMPORTS, `${CORE}/session/up-lock.ts`, imports('../lock/lock.ts')],
  [IMPORTS, `${CORE}/session/up-keeper.ts`, imports('../keeper.ts')],
  [IMPORTS, `${CORE}/session/etcd3.ts`, imports('etcd3')],
  [IMPORTS, `${CORE}/lock/up-keeper.ts`, imports('../keeper.ts')],
  [IMPORTS, `${CORE}/lock/down-etcd.ts`, imports('../coordinator/etcd/rpc.ts')],
  [IMPORTS, `${GUARD}/core.ts`, imports('@lockkeeper/core')],
  [IMPORTS, `${GUARD}/memory.ts`, imports('pg')],
  [IMPORTS, `${GUARD}/postgres/other.ts`, imports('etcd3')],
  [IMPORTS, 'packages/testkit/src/etcd3.ts', imports('etcd3')],
  [IMPORTS, 'packages/testkit/src/cli.ts', imports('@lockkeeper/cli')],
  [IMPORTS, 'packages/testkit/src/worker/vitest.ts', imports('vitest')],
  [IMPORTS, 'packages/testkit/src/vitest.ts', imports('etcd3')],
  [IMPORTS, 'packages/testkit/src/integration.ts', imports('../../../integration/suite.ts')],
  [IMPORTS, 'scripts/integration.ts', imports('@lockkeeper/integration')],
  [IMPORTS, 'integration/by-path.ts', imports('../packages/core/src/index.ts')],
  [GLOBALS, `${CORE}/date.ts`, 'export const at = Date.now();\n'],
  [GLOBALS, `${CORE}/new-date.ts`, 'export const at = new Date();\n'],
  [GLOBALS, `${CORE}/performance.ts`, 'export const at = performance.now();\n'],
  [GLOBALS, `${CORE}/session/timeout.ts`, 'setTimeout(() => {}, 5);\n'],
  [GLOBALS, `${CORE}/lock/interval.ts`, 'setInterval(() => {}, 5);\n'],
  [GLOBALS, `${CORE}/lock/immediate.ts`, 'setImmediate(() => {});\n'],
  [PROPERTIES, `${CORE}/any.ts`, 'export const signal = AbortSignal.any([]);\n'],
  [PROPERTIES, `${CORE}/timeout.ts`, 'export const signal = AbortSignal.timeout(5);\n'],
  [PROPERTIES, `${CORE}/by-global.ts`, 'globalThis.setTimeout(() => {}, 5);\n'],
  [FLOATING, `${CORE}/floating.ts`, 'async function f() {}\nexport const g = () => {\n  f();\n};\n'],
  [CYCLES, `${CORE}/cycle-a.ts`, "export { b } from './cycle-b.ts';\nexport const a = 1;\n"],
  [CYCLES, `${CORE}/cycle-b.ts`, "export { a } from './cycle-a.ts';\nexport const b = 1;\n"],
  [EXTENSIONS, `${CORE}/extension.ts`, imports('./clock')],
  [UNDECLARED, `${CORE}/coordinator/etcd/undeclared.ts`, imports('cockatiel')],
  [CONSOLE, `${CORE}/console.ts`, "console.log('x');\n"],
];

const accepted: [file: string, source: string][] = [
  ['packages/fencing/src/sibling.ts', imports('./errors.ts')],
  [`${CORE}/clock.ts`, 'export const x = Date.now() + performance.now();\nsetTimeout(() => {}, 5);\n'],
  [`${CORE}/virtual.ts`, imports('./coordinator/memory/virtual-clock.ts')],
  [`${CORE}/coordinator/memory/virtual-clock.ts`, 'export const x = new Date();\n'],
  [`${CORE}/coordinator/etcd/rpc.ts`, imports('etcd3')],
  [`${CORE}/coordinator/etcd/grpc.ts`, imports('@grpc/grpc-js')],
  [`${CORE}/session/session.ts`, imports('../coordinator/coordinator.ts')],
  [`${CORE}/lock/lock.ts`, imports('../session/session.ts')],
  [`${CORE}/keeper.ts`, imports('./lock/lock.ts')],
  [`${CORE}/connect.ts`, imports('./coordinator/etcd/rpc.ts')],
  [`${CORE}/fencing.ts`, imports('@lockkeeper/fencing')],
  [`${CORE}/async-hooks.ts`, imports('node:async_hooks')],
  [`${CORE}/some.test.ts`, `${imports('node:timers/promises')}setTimeout(() => {}, 5);\n`],
  [`${GUARD}/postgres.ts`, imports('pg')],
  [`${GUARD}/fencing.ts`, imports('@lockkeeper/fencing')],
  ['packages/testkit/src/core.ts', imports('@lockkeeper/core')],
  ['packages/testkit/src/guard.ts', imports('@lockkeeper/resource-guard/memory')],
  ['packages/testkit/src/fixtures/server-that.ts', imports('vitest')],
  ['integration/some.test.ts', imports('@lockkeeper/testkit')],
  ['scripts/some.mjs', "console.log('x');\n"],
];

/** Sound in themselves, so that only the tested rule can find fault with a made-up file. */
const dependencies = {
  fencing: {},
  core: { '@lockkeeper/fencing': '*', '@grpc/grpc-js': '*', etcd3: '*' },
  'resource-guard': { '@lockkeeper/fencing': '*', pg: '*' },
  testkit: { '@lockkeeper/core': '*', '@lockkeeper/resource-guard': '*', vitest: '*' },
};

interface Diagnostic {
  readonly category: string;
  readonly location: { readonly path: string };
}

let workspace: string;
let found: Map<string, string[]>;

async function put(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(workspace, file)), { recursive: true });
  await writeFile(join(workspace, file), text);
}

function lint(): Promise<readonly Diagnostic[]> {
  const biome = join(root, 'node_modules', '@biomejs', 'biome', 'bin', 'biome');
  const args = [biome, 'lint', '--reporter=json', '--max-diagnostics=none'];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: workspace, maxBuffer: 2 ** 26 }, (_error, stdout, stderr) => {
      try {
        resolve(JSON.parse(stdout).diagnostics);
      } catch {
        reject(new Error(`biome did not answer with JSON:\n${stdout}\n${stderr}`));
      }
    });
  });
}

beforeAll(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'lockkeeper-arrows-'));
  for (const file of ['biome.json', '.gitignore']) await cp(join(root, file), join(workspace, file));
  await put('package.json', JSON.stringify({ name: 'lockkeeper', private: true }));
  for (const [name, declared] of Object.entries(dependencies)) {
    const text = JSON.stringify({ name: `@lockkeeper/${name}`, dependencies: declared });
    await put(`packages/${name}/package.json`, text);
  }
  const testkit = { '@lockkeeper/testkit': '*' };
  await put(
    'integration/package.json',
    JSON.stringify({ name: '@lockkeeper/integration', dependencies: testkit }),
  );
  for (const [, file, source] of rejected) await put(file, source);
  for (const [file, source] of accepted) await put(file, source);

  found = new Map();
  for (const { category, location } of await lint()) {
    found.set(location.path, [...(found.get(location.path) ?? []), category]);
  }
});

afterAll(() => rm(workspace, { recursive: true, force: true }));

describe('the linter rejects', () => {
  test.each(rejected)('%s %s', (rule, file) => {
    expect(found.get(file) ?? []).toContain(rule);
  });
});

describe('the linter accepts', () => {
  test.each(accepted)('%s', (file) => {
    expect(found.get(file)).toBeUndefined();
  });
});
