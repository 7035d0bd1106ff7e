import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { onAbort, untilAborted } from './abort.ts';
import { Turnstile } from './turnstile.ts';

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;
const forEver = () => new Promise<never>(() => {});

describe('many waits on one signal', () => {
  it('share one listener, which goes with the last of them', async () => {
    const { signal } = new AbortController();
    let settle: () => void = () => {};
    const work = new Promise<void>((resolve) => (settle = resolve));
    const waits = Array.from({ length: 30 }, () => untilAborted(work, signal));
    const turnstile = new Turnstile();
    const leave = await turnstile.enter('exclusive', signal);
    const turns = Array.from({ length: 30 }, () => turnstile.enter('shared', signal));
    expect(listeners(signal)).toBe(1);
    settle();
    await Promise.all(waits);
    expect(listeners(signal)).toBe(1);
    leave();
    await Promise.all(turns);
    expect(listeners(signal)).toBe(0);
  });

  it('all end when it aborts', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const reason = new Error('no longer wanted');
    const turnstile = new Turnstile();
    await turnstile.enter('exclusive');
    const waits = Array.from({ length: 30 }, (_, index) =>
      index % 2 === 0 ? untilAborted(forEver(), signal) : turnstile.enter('exclusive', signal),
    );
    controller.abort(reason);
    for (const wait of waits) await expect(wait).rejects.toBe(reason);
    expect(listeners(signal)).toBe(0);
  });

  it('may be given up one by one, and twice', () => {
    const controller = new AbortController();
    const called: string[] = [];
    const act = (name: string) => () => called.push(name);
    const same = act('same');
    const giveUps = [
      onAbort(controller.signal, act('given up')),
      onAbort(controller.signal, same),
      onAbort(controller.signal, same),
    ];
    giveUps[0]?.();
    giveUps[0]?.();
    giveUps[1]?.();
    controller.abort();
    expect(called).toEqual(['same']);
    for (const giveUp of giveUps) giveUp();
    expect(called).toEqual(['same']);
  });

  it('that were given up leave later ones alone', () => {
    const { signal } = new AbortController();
    const first = onAbort(signal, () => {});
    first();
    const second = onAbort(signal, () => {});
    first();
    expect(listeners(signal)).toBe(1);
    second();
    expect(listeners(signal)).toBe(0);
  });
});
