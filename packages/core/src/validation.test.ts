import { describe, expect, it } from 'vitest';
import { checkCall, invalidOption } from './validation.ts';

describe('invalidOption shows', () => {
  const cyclic: unknown[] = [1];
  cyclic.push(cyclic);
  it.each([
    [[], 'x is []; why'],
    [['a', 5, undefined], 'x is ["a", 5, undefined]; why'],
    [cyclic, 'x is [1, […]]; why'],
    [Array.from({ length: 12 }, () => 0), 'x is [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, …]; why'],
    [Object.create(null), 'x is a value of type object; why'],
    [{ toString: () => expect.fail('thrown') }, 'x is a value of type object; why'],
    [{}, 'x is [object Object]; why'],
    ['', 'x is ""; why'],
    ['y'.repeat(300), `x is "${'y'.repeat(200)}"; why`],
    [null, 'x is null; why'],
    [Symbol('s'), 'x is Symbol(s); why'],
  ])('%#', (value, message) => {
    expect(invalidOption('x', value, 'why').message).toBe(message);
  });
});

it('checkCall gives what is valid, and nothing else', () => {
  const { signal } = new AbortController();
  expect(checkCall({ timeoutMs: 0, signal, more: 1 })).toEqual({ timeoutMs: 0, signal });
  expect(checkCall({})).toEqual({ timeoutMs: undefined, signal: undefined });
  expect(() => checkCall(null)).toThrow(/options is null/);
});
