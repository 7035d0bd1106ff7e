import { describe, expect, test } from 'vitest';
import { versionWarnings } from './health.ts';

describe('warnings for', () => {
  test.each(['memory', 'simulated', 'etcd 3.5.30', 'etcd 3.5.31', 'etcd 3.6.9', 'etcd 3.6.11', 'etcd 3.7.0'])(
    '%s: none',
    (version) => {
      expect(versionWarnings(version)).toEqual([]);
    },
  );

  test.each([
    ['etcd 3.4.23', ['upgrade', 'renewal', 'watch', 'stalled', 'rights']],
    ['etcd 3.5.9', ['upgrade', 'renewal', 'watch', 'stalled', 'rights']],
    ['etcd 3.5.13', ['upgrade', 'renewal', 'watch', 'rights']],
    ['etcd 3.5.22', ['upgrade', 'renewal', 'rights']],
    ['etcd 3.5.23', ['upgrade', 'rights']],
    ['etcd 3.5.29', ['upgrade']],
    ['etcd 3.6.0', ['renewal', 'rights']],
    ['etcd 3.6.5', ['rights']],
    ['etcd of a version it does not tell', ['root']],
    ['etcd', ['root']],
  ])('%s: %j', (version, words) => {
    const warnings = versionWarnings(version);
    expect(warnings).toHaveLength(words.length);
    for (const [index, word] of words.entries()) expect(warnings[index]).toContain(word);
  });
});
