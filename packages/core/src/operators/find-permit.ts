import { FencingToken } from '@lockkeeper/fencing';
import {
  type CallOptions,
  type Compare,
  type Coordinator,
  type KeyValue,
  prefixSpan,
} from '../coordinator/coordinator.ts';
import { readContender } from '../lock/acquisition.ts';
import type { SemaphoreKeys } from '../lock/key-layout.ts';
import type { PermitToken } from '../semaphore/permit-token.ts';
import type { Found } from './breaking.ts';
import { isUnchanged, keysCreatedAt } from './find-contender.ts';
import { slotsOf, type TakenSlot } from './inspect-semaphore.ts';
import type { Sealable } from './seal-guards.ts';

/** The guards of a slot's resource. */
export type SlotGuards = (slot: number) => readonly Sealable[];

/** Where the permits of a semaphore are, and what guards them. */
export interface PermitPlaces {
  readonly keys: SemaphoreKeys;
  readonly lineageKey: string;
  readonly guardsOf: SlotGuards;
}

/** The permit that the token names: its slot, and its place in the queue where it has that still. */
export async function findPermit(
  coordinator: Coordinator,
  places: PermitPlaces,
  token: PermitToken,
  call: CallOptions,
): Promise<Found | undefined> {
  const { keys, lineageKey } = places;
  const own = token.forSlot(token.slot);
  const candidates = await keysCreatedAt(coordinator, keys.slots, lineageKey, own, call);
  const taken = slotsOf(keys, candidates).find(({ slot, kv }) => slot === token.slot && isOf(own, kv));
  if (taken === undefined) return undefined;
  // Both keys hang on one lease, which the names of those in the queue begin with.
  const ofLease = prefixSpan(`${keys.queue.keys}${taken.kv.lease.toString(16)}`);
  const queued = (await coordinator.range(ofLease, call)).kvs.find((kv) => isOf(own, kv));
  return permitFound(places, own, taken, queued);
}

/** Who waits by this place in the queue; or the permit that it has got meanwhile. */
export async function findPermitWaiter(
  coordinator: Coordinator,
  places: PermitPlaces,
  place: FencingToken,
  call: CallOptions,
): Promise<Found | undefined> {
  const { keys, lineageKey } = places;
  const candidates = await keysCreatedAt(coordinator, prefixSpan(keys.queue.rivals), lineageKey, place, call);
  const queued = candidates.find((kv) => isOf(place, kv));
  if (queued === undefined) return undefined;
  const slots = slotsOf(keys, (await coordinator.range(keys.slots, call)).kvs);
  const own = slots.find(({ kv }) => isOf(place, kv));
  if (own !== undefined) {
    const { lineage, acquisition } = place;
    return permitFound(
      places,
      new FencingToken({ lineage, revision: own.kv.modRevision, acquisition }),
      own,
      queued,
    );
  }
  return {
    held: undefined,
    compare: [
      { key: lineageKey, target: 'value', is: '=', to: place.lineage },
      ...isUnchanged(queued),
      // It must not have got a slot meanwhile, whose guards would have to be sealed. Of an empty span no value is anything.
      slots.length === 0
        ? { ...keys.slots, target: 'createRevision', is: '=', to: 0n }
        : { ...keys.slots, target: 'value', is: '!=', to: queued.value },
    ],
    keys: [queued.key],
  };
}

function permitFound(
  { lineageKey, guardsOf }: PermitPlaces,
  token: FencingToken,
  { slot, kv }: TakenSlot,
  queued: KeyValue | undefined,
): Found {
  const lineage: Compare = { key: lineageKey, target: 'value', is: '=', to: token.lineage };
  const own = queued === undefined ? [kv] : [kv, queued];
  return {
    held: { tokens: [token], guards: guardsOf(slot) },
    compare: [lineage, ...own.flatMap(isUnchanged)],
    keys: own.map(({ key }) => key),
  };
}

/** Intact, and put by the acquisition that the token names. */
const isOf = ({ acquisition }: FencingToken, kv: KeyValue): boolean =>
  kv.createRevision === kv.modRevision && readContender(kv).acquisition === acquisition;
