import { FencingToken, type GuardState } from '@lockkeeper/fencing';
import { expect, it } from 'vitest';
import { formatStoredState, parseStoredState } from './stored-state.ts';

const writer = FencingToken.parse('main:9007199254740993:a');
const reader = FencingToken.parse('main:9007199254740995:b:shared');

it.each<[string, GuardState]>([
  ['main:9007199254740993:a 0', { token: writer, sealed: false }],
  ['main:9007199254740995:b:shared 1', { token: reader, sealed: true }],
  [
    'main:9007199254740995:b:shared 0 main:9007199254740993:a 1',
    { token: reader, sealed: false, writer: { token: writer, sealed: true } },
  ],
])('%s is text and state', (text, state) => {
  expect(formatStoredState(state)).toBe(text);
  expect(parseStoredState('accounts', text)).toEqual(state);
});

it.each([
  '',
  'main:1:a',
  'main:1:a 2',
  'main:1:a 0 ',
  'main:0:a 0',
  'main:2:b:shared 0 main:1:a',
  'main:2:b:shared 0 main:1:a 0 0',
  'main:2:b 0 main:1:a 0',
  'main:2:b:shared 0 main:1:a:shared 0',
  undefined,
  7,
])('%j is no state, and says nothing about a token', (text) => {
  expect(() => parseStoredState('accounts', text)).toThrow(
    expect.objectContaining({ code: 'unavailable', outcome: 'failed', resource: 'accounts' }),
  );
});
