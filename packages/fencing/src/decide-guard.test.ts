import { describe, expect, it } from 'vitest';
import { decideGuard, decideRebase, type GuardVerb, refusal } from './decide-guard.ts';
import { FencingToken } from './fencing-token.ts';

import type { GuardState } from './guard.ts';

const at = (revision: bigint, acquisition = `a${revision}`, lineage = 'main') =>
  new FencingToken({ lineage, revision, acquisition });

const STATES = {
  none: undefined,
  open: { token: at(5n), sealed: false },
  sealed: { token: at(5n), sealed: true },
} as const satisfies Record<string, GuardState | undefined>;

const TOKENS = {
  below: at(4n),
  same: at(5n),
  above: at(6n),
  conflicting: at(5n, 'somebody-else'),
  foreign: at(9n, 'a9', 'another'),
} as const;

/** What each entry says: an error's code, or what is stored next (`as is`, `open`, `sealed`). */
type Entry = string;
type Table = Record<keyof typeof STATES, Record<keyof typeof TOKENS, Entry>>;

const fresh = (entry: Entry) => ({
  below: entry,
  same: entry,
  above: entry,
  conflicting: entry,
  foreign: entry,
});
const errors = { conflicting: 'conflicting-token', foreign: 'foreign-lineage' };

const TABLES: [string, GuardVerb, boolean, Table][] = [
  [
    'claim',
    'claim',
    false,
    {
      none: fresh('open'),
      open: { below: 'stale-token', same: 'as is', above: 'open', ...errors },
      sealed: { below: 'stale-token', same: 'sealed!', above: 'open', ...errors },
    },
  ],
  [
    'run',
    'run',
    false,
    {
      none: fresh('open'),
      open: { below: 'stale-token', same: 'as is', above: 'open', ...errors },
      sealed: { below: 'stale-token', same: 'sealed!', above: 'open', ...errors },
    },
  ],
  [
    'run with requireClaim',
    'run',
    true,
    {
      none: fresh('unclaimed'),
      open: { below: 'stale-token', same: 'as is', above: 'unclaimed', ...errors },
      sealed: { below: 'stale-token', same: 'sealed!', above: 'unclaimed', ...errors },
    },
  ],
  [
    'seal',
    'seal',
    false,
    {
      none: fresh('sealed'),
      open: { below: 'as is', same: 'sealed', above: 'sealed', ...errors },
      sealed: { below: 'as is', same: 'sealed', above: 'sealed', ...errors },
    },
  ],
];

describe.each(TABLES)('decideGuard: %s', (_, verb, requireClaim, table) => {
  for (const [stateName, state] of Object.entries(STATES)) {
    for (const [tokenName, token] of Object.entries(TOKENS)) {
      const entry = table[stateName as keyof typeof STATES][tokenName as keyof typeof TOKENS];
      it(`${stateName}, ${tokenName}: ${entry}`, () => {
        const decision = decideGuard(verb, 'r', state, token, { requireClaim });
        if (entry === 'as is') expect(decision).toEqual({ verdict: 'accept', next: undefined });
        else if (entry === 'open' || entry === 'sealed') {
          expect(decision).toEqual({ verdict: 'accept', next: { token, sealed: entry === 'sealed' } });
        } else {
          expect(decision).toMatchObject({
            verdict: 'reject',
            error: {
              code: entry.replace('!', ''),
              outcome: 'rejected',
              resource: 'r',
              token,
              current: state?.token,
            },
          });
        }
      });
    }
  }
});

it('requireClaim binds runs alone', () => {
  for (const verb of ['claim', 'seal'] as const) {
    expect(decideGuard(verb, 'r', undefined, at(1n), { requireClaim: true }).verdict).toBe('accept');
  }
});

it('a refusal says who was refused, why, and what is in force', () => {
  expect(refusal('stale-token', 'invoices', at(4n), at(5n)).message).toBe(
    'guard "invoices" refused token main:4:a4: a newer token is in force (in force: main:5:a5)',
  );
  expect(refusal('unclaimed', 'invoices', at(4n), undefined).message).not.toContain('in force');
});

describe('decideRebase', () => {
  const state = { token: at(5n), sealed: true };
  const next = new FencingToken({ lineage: 'restored', revision: 2n, acquisition: 'b' });

  it('puts the new token in force where the state is the confirmed one', () => {
    const accepted = { verdict: 'accept', next: { token: next, sealed: false } };
    expect(decideRebase('r', state, next, at(5n))).toEqual(accepted);
  });

  it('changes nothing when repeated', () => {
    const done = { token: next, sealed: false };
    expect(decideRebase('r', done, next, at(5n))).toEqual({ verdict: 'accept', next: undefined });
  });

  it.each([
    ['an older state', at(4n)],
    ['a newer state', at(6n)],
    ['another acquisition', new FencingToken({ lineage: 'main', revision: 5n, acquisition: 'else' })],
  ])('refuses the confirmation of %s', (_, from) => {
    expect(decideRebase('r', state, next, from)).toMatchObject({
      verdict: 'reject',
      error: { code: 'not-confirmed', outcome: 'rejected', token: next, current: at(5n) },
    });
  });

  it('refuses where there is nothing to confirm, and within one lineage', () => {
    expect(decideRebase('r', undefined, next, at(5n))).toMatchObject({ error: { code: 'not-confirmed' } });
    expect(decideRebase('r', state, at(6n), at(5n))).toMatchObject({ error: { code: 'invalid-option' } });
  });
});
