import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type ConnectOptions, connect } from '@lockkeeper/core';
import { memoryCoordinator } from '@lockkeeper/core/memory';
import { startEtcd, waitUntil } from '@lockkeeper/testkit';
import { describe, expect, it, onTestFinished } from 'vitest';

/** Nothing runs meanwhile: no timer, no reply, no continuation. */
function blockEventLoop(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const worlds: Record<string, () => Promise<ConnectOptions>> = {
  memory: async () => ({ coordinator: memoryCoordinator() }),
  etcd: async () => {
    const server = await startEtcd();
    onTestFinished(() => server.stop());
    return { hosts: server.endpoint };
  },
};

describe.each(Object.keys(worlds))('B1: after the event loop stood still for 2 × TTL, on %s', (where) => {
  it('the very next line sees the loss', async () => {
    const options = await worlds[where]?.();
    await using keeper = await connect({
      ...(options as ConnectOptions),
      ttlMs: 2_000,
      namespace: randomUUID(),
    });
    const stalls: unknown[] = [];
    const onStall = (event: unknown) => stalls.push(event);
    subscribe('lockkeeper:process:stalled', onStall);
    const hold = await keeper.lock('x').acquire();
    expect(hold.standing).toBe('held');

    blockEventLoop(2 * hold.ttlMs);
    expect(hold.signal.aborted).toBe(true);
    expect(hold.signal.reason).toMatchObject({ code: 'lost', lossCause: 'unconfirmed' });
    expect(hold.standing).toBe('lost');
    expect(hold.remainingMs()).toBe(0);
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining({ code: 'lost' }));

    expect(await hold.release()).toMatchObject({ outcome: 'already-lost' });
    const next = await keeper.lock('x').acquire();
    expect(next.token.revision).toBeGreaterThan(hold.token.revision);

    blockEventLoop(next.ttlMs / 2);
    await waitUntil('told', () => stalls.length > 0);
    expect(stalls).toContainEqual({ session: expect.any(String), stalledMs: expect.any(Number) });
    unsubscribe('lockkeeper:process:stalled', onStall);
  });
});
