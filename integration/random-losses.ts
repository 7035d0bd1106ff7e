import { randomUUID } from 'node:crypto';
import { type Coordinator, connect } from '@lockkeeper/core';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { FaultyCoordinator, isEnding, isEnqueue } from '@lockkeeper/testkit';
import { expect } from 'vitest';

/**
 * F7: replies are lost at random while several clients count up under one lock. Every increment that was
 * reported happened once, and none that was not.
 */
export async function countUnderLosses(client: () => Coordinator, rounds: number): Promise<void> {
  const namespace = randomUUID();
  const guard = memoryGuard({ resource: 'counter' });
  let counter = 0;
  let reported = 0;
  const oneClient = async (): Promise<void> => {
    const connection = new FaultyCoordinator(client());
    await using keeper = await connect({ coordinator: connection, namespace });
    for (let round = 0; round < rounds; round += 1) {
      if (Math.random() < 0.3) connection.loseNextReply(isEnqueue);
      if (Math.random() < 0.3) connection.loseNextReply(isEnding);
      if (Math.random() < 0.1) connection.loseNextReply((txn) => isEnding(txn) || isEnqueue(txn));
      await keeper.lock('counter').using({ claims: [guard] }, async (hold) => {
        await guard.run(hold.token, async () => {
          const read = counter;
          await Promise.resolve();
          counter = read + 1;
        });
        reported += 1;
      });
    }
  };
  await Promise.all([oneClient(), oneClient(), oneClient()]);
  expect(reported).toBe(3 * rounds);
  expect(counter).toBe(reported);
}
