import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { VirtualClock } from './coordinator/memory/virtual-clock.ts';
import { AbortScope, unlessAborted, within } from './signals.ts';

describe('AbortScope', () => {
  it('aborts for the first reason, and keeps it', () => {
    const [a, b] = [new AbortController(), new AbortController()];
    using scope = new AbortScope().follow(a.signal).follow(b.signal);
    b.abort('b');
    a.abort('a');
    expect(scope.signal.reason).toBe('b');
    expect(new AbortScope().follow(a.signal).signal.reason).toBe('a');
  });

  it('puts one listener on a signal, however many follow it, and takes it away with the last', () => {
    const source = new AbortController();
    const scopes = Array.from({ length: 100 }, () => new AbortScope().follow(source.signal));
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(1);
    for (const scope of scopes) scope[Symbol.dispose]();
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(0);
    using late = new AbortScope().follow(source.signal);
    source.abort('late');
    expect(late.signal.reason).toBe('late');
    expect(scopes.some((scope) => scope.signal.aborted)).toBe(false);
  });

  it('follows others of its kind, until it or they are over', () => {
    const source = new AbortScope();
    const scopes = Array.from({ length: 4 }, () => new AbortScope().follow(source));
    for (const at of [0, 2]) scopes[at]?.[Symbol.dispose]();
    using further = new AbortScope().follow(scopes[1]).follow(source);
    expect(further.aborted).toBe(false);
    source.abort('why');
    source.abort('why again');
    expect(scopes.map(({ aborted }) => aborted)).toEqual([false, true, false, true]);
    expect(further.signal.reason).toBe('why');
    expect(() => scopes[0]?.throwIfAborted()).not.toThrow();
    expect(new AbortScope().follow(source).signal.reason).toBe('why');
  });

  it('forgets its limit when it is disposed', async () => {
    const clock = new VirtualClock();
    const scope = new AbortScope();
    scope.limit(clock, 100, () => 'too late');
    scope[Symbol.dispose]();
    await clock.advance(200);
    expect(scope.signal.aborted).toBe(false);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('unlessAborted', () => {
  it('passes the promise on, or the reason, and leaves no listener', async () => {
    const source = new AbortController();
    expect(await unlessAborted(source.signal, Promise.resolve(1))).toBe(1);
    await expect(unlessAborted(source.signal, Promise.reject('no'))).rejects.toBe('no');
    expect(getEventListeners(source.signal, 'abort')).toHaveLength(0);
    const waiting = unlessAborted(source.signal, new Promise(() => {}));
    source.abort('enough');
    await expect(waiting).rejects.toBe('enough');
    await expect(unlessAborted(source.signal, Promise.resolve(1))).rejects.toBe('enough');
  });
});

describe('within', () => {
  it('gives up at the limit and leaves no timer', async () => {
    const clock = new VirtualClock();
    expect(await within(clock, 100, Promise.resolve(1))).toBe(1);
    const late = within(clock, 100, new Promise(() => {}));
    await clock.advance(100);
    expect(await late).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
  });
});
