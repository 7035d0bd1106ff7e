import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { lateWriteDrill } from '@lockkeeper/testkit';
import { test } from '@lockkeeper/testkit/vitest';
import { expect } from 'vitest';
import { readAccount, writeAccount } from './account.js';

test.for([
  [false, 'exposed'],
  [true, 'protected'],
])(
  'an account whose storage checks the token (%s) is %s',
  { timeout: 60_000 },
  async ([checked, verdict], { etcd, keeper }) => {
    const worker = new URL('./account.js', import.meta.url);
    const resource = { reset: () => writeAccount(keeper, ''), read: () => readAccount(keeper) };
    const report = await lateWriteDrill({ worker, resource, etcd, data: { checked } });
    console.log(report.text);
    expect(report.verdict).toBe(verdict);
  },
);

test('a guard refuses the late write', { timeout: 20_000 }, async ({ lateWriter }) => {
  const guard = memoryGuard({ resource: 'account' });
  const written = [];
  const write = (hold) => guard.run(hold.token, () => written.push(hold.token));
  const { late, newer } = await lateWriter.run({ lock: 'account', claims: [guard], write });
  expect(late).toMatchObject({ outcome: 'refused', error: { code: 'stale-token' } });
  expect(written).toEqual([newer.token]);
});
