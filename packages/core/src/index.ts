export { type Clock, systemClock, type Timer, type TimerOptions } from './clock.ts';
export type { EndSignal } from './close-on-signals.ts';
export type {
  CallOptions,
  Compare,
  CompareOperator,
  Coordinator,
  EndpointHealth,
  GrantReply,
  GrantRequest,
  KeySpan,
  KeyValue,
  LeaseTime,
  Operation,
  OperationResult,
  RangeReply,
  RangeRequest,
  RangeResult,
  Txn,
  TxnReply,
  TxnResult,
  Watch,
  WatchEvent,
  WatchHandler,
  WatchRequest,
} from './coordinator/coordinator.ts';
export { prefixSpan } from './coordinator/coordinator.ts';
export {
  type EtcdAuth,
  type EtcdCredentials,
  type EtcdOptions,
  etcdCoordinator,
} from './coordinator/etcd/etcd-coordinator.ts';
export type {
  CampaignOptions,
  Election,
  LeaderOptions,
  ObserveOptions,
  TermsOptions,
} from './election/election.ts';
export type { Leader } from './election/observer.ts';
export type { Term } from './election/term.ts';
export {
  LockkeeperError,
  type LockkeeperErrorCode,
  type LockkeeperErrorOptions,
  type LossCause,
} from './errors.ts';
export { FencedTxn, type FencedTxnReply, fencedTxn } from './fenced-txn.ts';
export type { HealthOptions, KeeperHealth, SessionHealth } from './health.ts';
export { type CloseOptions, connect, type Keeper, type ReadWriteLock } from './keeper.ts';
export type {
  AcquireOptions,
  LockOptions,
  RequestReleaseOptions,
  TryAcquireOptions,
} from './lock/acquire-options.ts';
export type { Contender } from './lock/acquisition.ts';
export type { Hold, HoldStanding, ReleaseAnswer } from './lock/hold.ts';
export type { LockKind } from './lock/key-layout.ts';
export type { Lock, TryAcquired } from './lock/lock.ts';
export type { ReleaseRequest } from './lock/release-request.ts';
export type { WriteHold } from './lock/write-hold.ts';
export type { BreakLockOptions, BreakOptions, BreakPermitOptions } from './operators/break-lock.ts';
export type { BreakAnswer } from './operators/breaking.ts';
export type { ListedContender, ListedLock, ListedPermit } from './operators/crowd.ts';
export type { Inspection } from './operators/inspect.ts';
export type { InspectedContender, LockInspection } from './operators/inspect-lock.ts';
export type {
  InspectedPermit,
  InspectedPermitWaiter,
  SemaphoreInspection,
} from './operators/inspect-semaphore.ts';
export type { InspectOptions } from './operators/inspection.ts';
export type { ListOptions } from './operators/list-locks.ts';
export type { QueueKind } from './operators/lock-kind.ts';
export type { Sealable } from './operators/seal-guards.ts';
export type { ConnectOptions, Logger } from './options.ts';
export type { Permit } from './semaphore/permit.ts';
export { PermitToken } from './semaphore/permit-token.ts';
export type {
  AcquirePermitOptions,
  Semaphore,
  SemaphoreOptions,
  TryAcquiredPermit,
  TryAcquirePermitOptions,
} from './semaphore/semaphore.ts';
export type { AbortListener, AbortSignalLike } from './signals.ts';
export type { TelemetryEvents } from './telemetry.ts';
export { etcdTokenVerifier, type TokenVerifierOptions, type VerifierLimits } from './token-verifier.ts';
