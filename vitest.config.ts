import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { TallyReporter } from './scripts/tally-reporter.ts';

const inCi = Boolean(process.env['CI']);
const conditions = ['@lockkeeper/source', 'node'];

/** Tests run on sources. A package's own sources are found by a condition that no user of the package sets. */
const onSources = { resolve: { conditions }, ssr: { resolve: { conditions } } };

export default defineConfig({
  ...onSources,
  test: {
    pool: 'forks',
    // Lease tests wait rather than compute: more of them at once than cores, but not so many that they starve.
    maxWorkers: 4,
    retry: 0,
    allowOnly: !inCi,
    reporters: [inCi ? 'dot' : 'default', new TallyReporter()],
    env: {
      // Also where an engine answers: what these tests do to processes cannot all be done to containers.
      LOCKKEEPER_SERVERS: process.env['LOCKKEEPER_SERVERS'] || 'env,path,unpacked',
      LOCKKEEPER_SERVER_CACHE:
        process.env['LOCKKEEPER_SERVER_CACHE'] ?? fileURLToPath(new URL('.cache/servers', import.meta.url)),
    },
    setupFiles: ['./scripts/vitest-worker.ts'],
    // Limits for a noisy machine of two cores; a test that needs more says so itself.
    testTimeout: 30_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['packages/*/src/**/*.test.ts'] },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['integration/**/*.test.ts'],
          exclude: ['**/node_modules/**', '**/*.faults.test.ts', 'integration/containers/**'],
          testTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: { name: 'scripts', include: ['scripts/**/*.test.ts'], testTimeout: 120_000 },
      },
      {
        // `npm run test:containers`: only beside an engine.
        extends: true,
        test: { name: 'containers', include: ['integration/containers/**/*.test.ts'], testTimeout: 60_000 },
      },
      {
        // The long runs: `npm run test:faults`, not part of `npm test`.
        extends: true,
        test: { name: 'faults', include: ['integration/**/*.faults.test.ts'], testTimeout: 600_000 },
      },
    ],
  },
});
