export {
  type MemoryCoordinator,
  memoryCoordinator,
} from './coordinator/memory/memory-coordinator.ts';
export {
  type MemoryStore,
  type MemoryStoreOptions,
  memoryStore,
} from './coordinator/memory/memory-store.ts';
export { VirtualClock, type VirtualClockOptions } from './coordinator/memory/virtual-clock.ts';
