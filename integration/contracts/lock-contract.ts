import { onTestFinished } from 'vitest';
import { describeAcquiring } from './lock/acquiring.ts';
import { describeBreaking } from './lock/breaking.ts';
import { describeClaims } from './lock/claims.ts';
import { describeClosing } from './lock/closing.ts';
import { describeElections } from './lock/elections.ts';
import { describeFailedWaits } from './lock/failed-waits.ts';
import { describeFencedWrites } from './lock/fenced-writes.ts';
import { describeHandOver } from './lock/hand-over.ts';
import { describeHolding } from './lock/holding.ts';
import { describeInspecting } from './lock/inspecting.ts';
import { describeLifetimes } from './lock/lifetimes.ts';
import { describeReadWriteLocks } from './lock/read-write.ts';
import { describeReleaseRequests } from './lock/requests.ts';
import { describeSemaphoreWaits } from './lock/semaphore-waits.ts';
import { describeSemaphores } from './lock/semaphores.ts';
import { describeLockSets } from './lock/sets.ts';
import { describeSharedTokens } from './lock/shared-tokens.ts';
import { describeUnknownOutcomes } from './lock/unknown-outcomes.ts';
import { describeUsing } from './lock/using.ts';
import { type CoordinatorWorld, LockWorld, type MakeLockWorld } from './lock-world.ts';

/** What every lock keeps to, on every coordinator. */
export function describeLocks(where: string, makeWorld: () => Promise<CoordinatorWorld>): void {
  const newWorld: MakeLockWorld = async (whenFinished = onTestFinished) => {
    const world = new LockWorld(await makeWorld());
    whenFinished(() => world[Symbol.asyncDispose]());
    return world;
  };
  describeAcquiring(where, newWorld);
  describeUnknownOutcomes(where, newWorld);
  describeFailedWaits(where, newWorld);
  describeHandOver(where, newWorld);
  describeHolding(where, newWorld);
  describeFencedWrites(where, newWorld);
  describeClaims(where, newWorld);
  describeLifetimes(where, newWorld);
  describeReadWriteLocks(where, newWorld);
  describeSharedTokens(where, newWorld);
  describeLockSets(where, newWorld);
  describeReleaseRequests(where, newWorld);
  describeSemaphores(where, newWorld);
  describeSemaphoreWaits(where, newWorld);
  describeElections(where, newWorld);
  describeInspecting(where, newWorld);
  describeBreaking(where, newWorld);
  describeUsing(where, newWorld);
  describeClosing(where, newWorld);
}
