import { describe, expect, it } from 'vitest';
import { type TurnMode, Turnstile } from './turnstile.ts';

/** Everyone who is inside, by name, and a way out for each. */
class Room {
  readonly inside = new Map<string, () => void>();
  readonly #turnstile = new Turnstile();

  /** Asks for a turn and lets everything happen that can happen. */
  async ask(name: string, mode: TurnMode, signal?: AbortSignal): Promise<void> {
    this.#turnstile.enter(mode, signal).then(
      (leave) => this.inside.set(name, leave),
      () => undefined,
    );
    await this.settle();
  }

  async leave(name: string): Promise<void> {
    this.inside.get(name)?.();
    this.inside.delete(name);
    await this.settle();
  }

  settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  get names(): string[] {
    return [...this.inside.keys()];
  }
}

describe('Turnstile', () => {
  it('lets shared turns in together and an exclusive one alone', async () => {
    const room = new Room();
    await room.ask('a', 'shared');
    await room.ask('b', 'shared');
    await room.ask('X', 'exclusive');
    expect(room.names).toEqual(['a', 'b']);
    await room.leave('a');
    expect(room.names).toEqual(['b']);
    await room.leave('b');
    expect(room.names).toEqual(['X']);
  });

  it('lets nobody overtake a waiter', async () => {
    const room = new Room();
    await room.ask('a', 'shared');
    await room.ask('X', 'exclusive');
    await room.ask('b', 'shared');
    await room.ask('Y', 'exclusive');
    await room.ask('c', 'shared');
    expect(room.names).toEqual(['a']);
    await room.leave('a');
    expect(room.names).toEqual(['X']);
    await room.leave('X');
    expect(room.names).toEqual(['b']);
    await room.leave('b');
    expect(room.names).toEqual(['Y']);
    await room.leave('Y');
    expect(room.names).toEqual(['c']);
  });

  it('closes the gap of a waiter that gave up', async () => {
    const room = new Room();
    const controller = new AbortController();
    await room.ask('a', 'shared');
    await room.ask('X', 'exclusive', controller.signal);
    await room.ask('b', 'shared');
    expect(room.names).toEqual(['a']);
    controller.abort();
    await room.settle();
    expect(room.names).toEqual(['a', 'b']);
  });

  it('rejects with the reason of the signal', async () => {
    const turnstile = new Turnstile();
    const reason = new Error('no longer wanted');
    await expect(turnstile.enter('shared', AbortSignal.abort(reason))).rejects.toBe(reason);
    const leave = await turnstile.enter('exclusive');
    const controller = new AbortController();
    const waiting = turnstile.enter('shared', controller.signal);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    leave();
  });

  it('counts a turn that is ended twice once', async () => {
    const room = new Room();
    await room.ask('a', 'shared');
    const leave = room.inside.get('a');
    leave?.();
    leave?.();
    await room.ask('X', 'exclusive');
    await room.ask('Y', 'exclusive');
    expect(room.names).toEqual(['a', 'X']);
  });
});
