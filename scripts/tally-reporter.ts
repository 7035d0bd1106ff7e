import type { Reporter, TestModule } from 'vitest/node';
import { addTally } from './tally.mjs';

/**
 * Writes the counts of a Vitest run to the file that `LOCKKEEPER_TALLY` names; run.mjs prints their sum. Whatever
 * went wrong outside a test counts as failed too: a module that cannot be loaded, a hook, an unhandled error, and
 * a test that never came to its end.
 */
export class TallyReporter implements Reporter {
  async onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): Promise<void> {
    const file = process.env['LOCKKEEPER_TALLY'];
    if (file === undefined) return;
    const tally = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      tally.failed += module.errors().length;
      for (const suite of module.children.allSuites()) tally.failed += suite.errors().length;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        tally[state === 'pending' ? 'failed' : state] += 1;
      }
    }
    await addTally(file, tally);
  }
}
