import { expect, test } from 'vitest';
import { atLeast, compareVersions, versionIn } from './versions.mjs';

test.each([
  ['3.4.9', '3.4.23', -1],
  ['3.5.30', '3.5.30', 0],
  ['3.5', '3.5.0', 0],
  ['18.4', '12', 1],
  ['4', '3.99.99', 1],
])('%s against %s', (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
  // `+ 0` because the sign of an equal pair turned round is -0.
  expect(Math.sign(compareVersions(b, a))).toBe(-sign + 0);
  expect(atLeast(a, b)).toBe(sign >= 0);
});

test.each([
  ['etcd Version: 3.5.30\nGit SHA: 1a2b3c\nGo Version: go1.24.4\n', '3.5.30'],
  ['postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n', '15.18'],
  ['no version here', undefined],
])('the version in %j', (text, version) => {
  expect(versionIn(text)).toBe(version);
});
