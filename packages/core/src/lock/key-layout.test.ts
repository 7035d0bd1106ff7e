import { describe, expect, it } from 'vitest';
import { KeyLayout, keySegment } from './key-layout.ts';

describe('the key layout', () => {
  it('is the one that etcdctl lock and Go clients share', () => {
    const layout = new KeyLayout('billing');
    const queue = layout.lock('invoices');
    expect(queue.rivals).toBe('billing/lock/invoices/');
    expect(layout.contender(queue.keys, '694d71dd', 0)).toBe('billing/lock/invoices/694d71dd');
    expect(layout.contender(queue.keys, '694d71dd', 2)).toBe('billing/lock/invoices/694d71dd.2');
    expect(layout.lineage).toBe('billing/lineage');
  });

  it('gives every name one segment of its own', () => {
    const names = [
      'a',
      'a/',
      'a/b',
      'a%2Fb',
      'a%',
      'A',
      "a'",
      'a(',
      'a)',
      'a*',
      'a!',
      'a b',
      'a\u0000',
      'é',
      'e\u0301',
      '..',
    ];
    const segments = names.map((name) => keySegment('name', name));
    expect(new Set(segments).size).toBe(names.length);
    for (const segment of segments) expect(segment).toMatch(/^(?:[A-Za-z0-9\-._~]|%[0-9A-F]{2})+$/);
  });

  it.each([
    ['', /name is ""/],
    ['x'.repeat(1_025), /at most 1024 bytes.*got 1025/],
    ['é'.repeat(513), /got 1026/],
    ['\ud83d', /lone surrogate/],
    [7, /name is 7/],
    [undefined, /name is undefined/],
  ])('refuses %j', (name, message) => {
    expect(() => keySegment('name', name)).toThrow(message);
    expect(() => keySegment('name', name)).toThrow(expect.objectContaining({ code: 'invalid-option' }));
  });

  it('takes names of up to 1,024 bytes', () => {
    expect(keySegment('name', '🔒'.repeat(256))).toHaveLength(256 * 12);
  });
});
