import { describe, expect, it } from 'vitest';
import { FencingToken } from './fencing-token.ts';
import { FENCING_TOKEN_HEADER, formatFencingHeader, parseFencingHeader } from './http-header.ts';

const token = new FencingToken({ lineage: 'main', revision: 2n ** 53n + 1n, acquisition: 'a_1-b' });
const text = 'main:9007199254740993:a_1-b';

describe('the Fencing-Token header', () => {
  it('carries a token there and back, as Node hands headers over', () => {
    const headers = new Headers({ [FENCING_TOKEN_HEADER]: formatFencingHeader(token) });
    expect(headers.get('fencing-token')).toBe(text);
    expect(parseFencingHeader(text)).toEqual(token);
    expect(parseFencingHeader([text])).toEqual(token);
    expect(parseFencingHeader(`  ${text}\t`)).toEqual(token);
  });

  it('that is missing is undefined', () => {
    expect(parseFencingHeader(undefined)).toBeUndefined();
  });

  it.each([[`${text}, ${text}`], [`${text},`], [[text, text]], [[]]])(
    'that is doubled is refused: %j',
    (value) => {
      expect(() => parseFencingHeader(value)).toThrow(
        expect.objectContaining({
          code: 'invalid-token',
          message: expect.stringContaining('sent more than once'),
        }),
      );
    },
  );

  it.each(['', ' ', 'null', '5', 'main:5', `${text};q=1`, `"${text}"`, [''], [`${text}, ${text}`]])(
    'that is malformed is refused: %j',
    (value) => {
      expect(() => parseFencingHeader(value)).toThrow(expect.objectContaining({ code: 'invalid-token' }));
    },
  );
});
