import { describe, expect, it } from 'vitest';
import { compareTokens, FencingToken, type FencingTokenParts } from './fencing-token.ts';

const parts = (over: Partial<FencingTokenParts> = {}): FencingTokenParts => ({
  lineage: 'main',
  revision: 5n,
  acquisition: 'a5',
  ...over,
});
const invalid = (message: string) =>
  expect.objectContaining({
    name: 'GuardError',
    code: 'invalid-token',
    message: expect.stringContaining(message),
  });

describe('FencingToken', () => {
  it.each([1n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n])(
    'keeps the revision %s through text and JSON',
    (revision) => {
      const token = new FencingToken(parts({ revision }));
      expect(token.revision).toBe(revision);
      expect(`${token}`).toBe(`main:${revision}:a5`);
      expect(JSON.parse(JSON.stringify({ token }))).toEqual({ token: `main:${revision}:a5` });
      expect(FencingToken.parse(token.toString())).toEqual(token);
      expect(new FencingToken(parts({ revision: `${revision}` }))).toEqual(token);
    },
  );

  it("shows a reader's mode in every form, and a writer's in none", () => {
    const reader = new FencingToken(parts({ shared: true }));
    expect([reader.shared, new FencingToken(parts()).shared]).toEqual([true, false]);
    expect(`${reader}`).toBe('main:5:a5:shared');
    expect(JSON.stringify({ reader })).toBe('{"reader":"main:5:a5:shared"}');
    expect(FencingToken.parse(`${reader}`)).toEqual(reader);
    expect(`${new FencingToken(parts({ shared: false }))}`).toBe('main:5:a5');
    for (const wrong of [1, 'shared', null]) {
      expect(() => new FencingToken(parts({ shared: wrong as never }))).toThrow(invalid('shared is '));
    }
  });

  it('cannot be changed', () => {
    const token = new FencingToken(parts());
    expect(Object.isFrozen(token)).toBe(true);
    expect(() => Object.assign(token, { revision: 6n })).toThrow(TypeError);
  });

  it.each([0n, -1n, 2n ** 63n, '0', '05', '-5', '+5', '5.0', '5e3', ' 5', '', '9223372036854775808', '٥'])(
    'refuses the revision "%s"',
    (revision) => {
      expect(() => new FencingToken(parts({ revision }))).toThrow(invalid('revision is '));
    },
  );

  it.each([5, Number.NaN, undefined, null, true, {}, Object.create(null), Symbol('5')])(
    'refuses a revision that is neither a bigint nor text (%#)',
    (revision) => {
      expect(() => new FencingToken(parts({ revision: revision as bigint }))).toThrow(
        invalid('revision is '),
      );
    },
  );

  it.each(['lineage', 'acquisition'] as const)(
    'takes 1 to 64 plain characters as %s, nothing else',
    (field) => {
      for (const good of ['a', 'Z', '0', '_', '-', 'x'.repeat(64)]) {
        expect(new FencingToken(parts({ [field]: good }))[field]).toBe(good);
      }
      for (const bad of ['', 'x'.repeat(65), 'a:b', 'a b', 'a\n', 'é', 'a,b', 7, undefined]) {
        expect(() => new FencingToken(parts({ [field]: bad as string }))).toThrow(invalid(`${field} is `));
      }
    },
  );

  it.each([
    '',
    'main',
    'main:5',
    'main:5:a5:more',
    'main:5:a5:',
    'main:5:a5:SHARED',
    'main:5:a5:shared:',
    'main:5:a5:shared:shared',
    ':5:a5',
    'main::a5',
    'main:5:',
    'main:0:a5',
    'main:5:a5\n',
    ' main:5:a5',
  ])('does not parse %j', (text) => {
    expect(() => FencingToken.parse(text)).toThrow(invalid('expected'));
  });

  it.each([undefined, null, 5, 5n, {}, ['main:5:a5']])('does not parse what is no text (%#)', (value) => {
    expect(() => FencingToken.parse(value as never)).toThrow(invalid('token is '));
  });

  it('shows at most the beginning of a long wrong value', () => {
    expect(() => FencingToken.parse('x'.repeat(10_000))).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^.{1,400}$/) }),
    );
  });
});

describe('compareTokens', () => {
  const at = (revision: bigint, acquisition = `a${revision}`, lineage = 'main') =>
    new FencingToken({ lineage, revision, acquisition });
  const reader = (revision: bigint, acquisition?: string) =>
    new FencingToken({ ...at(revision, acquisition), shared: true });

  it.each([
    [at(4n), at(5n), 'below'],
    [at(6n), at(5n), 'above'],
    [at(5n), at(5n), 'same'],
    [at(5n, 'other'), at(5n), 'conflicting'],
    [at(4n, 'a4', 'another'), at(5n), 'foreign'],
    [at(5n, 'a5', 'another'), at(5n), 'foreign'],
    [at(6n, 'a6', 'another'), at(5n), 'foreign'],
    [at(2n ** 53n), at(2n ** 53n + 1n), 'below'],
    [at(2n ** 63n - 1n), at(2n ** 63n - 2n), 'above'],
    [at(10n), at(9n), 'above'],
    [reader(4n), at(5n), 'below'],
    [reader(5n), reader(5n), 'same'],
    [reader(5n), at(5n), 'above'],
    [at(5n), reader(5n), 'below'],
    [reader(5n, 'other'), at(5n), 'conflicting'],
    [at(6n), reader(5n), 'above'],
  ])('%s against %s is %s', (a, b, order) => {
    expect(compareTokens(a, b)).toBe(order);
  });
});
