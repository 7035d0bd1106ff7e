import { describe, expect, it } from 'vitest';
import { GuardError, type GuardErrorCode } from './errors.ts';
import { FencingToken } from './fencing-token.ts';

const OUTCOMES: Record<GuardErrorCode, string> = {
  'stale-token': 'rejected',
  sealed: 'rejected',
  'conflicting-token': 'rejected',
  'foreign-lineage': 'rejected',
  unclaimed: 'rejected',
  unverified: 'rejected',
  retry: 'retry',
  unavailable: 'failed',
  timeout: 'failed',
  unknown: 'unknown',
  'not-confirmed': 'rejected',
  'not-migrated': 'failed',
  'invalid-token': 'failed',
  'invalid-option': 'failed',
};

describe('GuardError', () => {
  it.each(Object.entries(OUTCOMES))('%s means %s', (code, outcome) => {
    expect(new GuardError(code as GuardErrorCode, 'why').outcome).toBe(outcome);
  });

  it('carries what it is about, and a cause even where that is undefined', () => {
    const token = new FencingToken({ lineage: 'main', revision: 1n, acquisition: 'a' });
    const cause = new Error('socket');
    const error = new GuardError('unknown', 'why', { cause, resource: 'r', token, current: token });
    expect(error).toMatchObject({
      name: 'GuardError',
      message: 'why',
      resource: 'r',
      token,
      current: token,
      cause,
    });
    expect('cause' in new GuardError('unknown', 'why')).toBe(false);
    expect('cause' in new GuardError('unknown', 'why', { cause: undefined })).toBe(true);
  });

  it('is recognised across two installed copies, and nothing else is', async () => {
    const path = './errors.ts?another-copy';
    const copy = (await import(/* @vite-ignore */ path)) as typeof import('./errors.ts');
    expect(copy.GuardError).not.toBe(GuardError);
    expect(new copy.GuardError('sealed', 'why')).toBeInstanceOf(GuardError);
    expect(new GuardError('sealed', 'why')).toBeInstanceOf(copy.GuardError);
    for (const other of [
      new Error('why'),
      { code: 'sealed', name: 'GuardError' },
      null,
      undefined,
      'sealed',
    ]) {
      expect(other instanceof GuardError).toBe(false);
    }
  });
});
