export { CertificateAuthority, type KeyPair } from './certificate-authority.ts';
export { CertificateFolder, createCertificates, type TestCertificates } from './certificates.ts';
export { type ChunkMatcher, chunkContaining, postgresQueryContaining } from './chunk-matchers.ts';
export { type ContainerHostOptions, containerHost } from './containers/container-host.ts';
export type { ContainerHandle } from './containers/docker-api.ts';
export { type Connectable, type ContainerNetwork, startContainerNetwork } from './containers/network.ts';
export type { ContainerOptions } from './containers/route.ts';
export type { DrillContext, DrillOrder, DrillRun } from './drill/drill-messages.ts';
export {
  type DrilledPoint,
  type DrillOptions,
  type DrillReport,
  lateWriteDrill,
} from './drill/late-write-drill.ts';
export type { DrilledResource } from './drill/play.ts';
export type { DrillState, DrillVerdict } from './drill/verdict.ts';
export { TestkitError, type TestkitErrorCode } from './errors.ts';
export {
  type EtcdAccount,
  type EtcdRoot,
  type EtcdSigningKeys,
  enableEtcdAuth,
  etcdSigningKeys,
  type SigningKeysOptions,
} from './etcd-auth.ts';
export {
  type EtcdCluster,
  type EtcdClusterOptions,
  type EtcdMember,
  startEtcdCluster,
} from './etcd-cluster.ts';
export type { EtcdCtl } from './etcd-ctl.ts';
export { etcdMetric } from './etcd-metrics.ts';
export type { PartitionGroup } from './etcd-partition.ts';
export {
  availableEtcdVersions,
  type CtlOptions,
  type EtcdOptions,
  type EtcdServer,
  type EtcdTls,
  startEtcd,
} from './etcd-server.ts';
export type { EtcdStore, RestoreSnapshotOptions, SpaceAlarm } from './etcd-store.ts';
export type { Fault } from './fault.ts';
export type { CoordinatorVerb, FaultAct, FaultPoint, FaultPoints } from './fault-points.ts';
export { FaultyCoordinator, isEnding, isEnqueue } from './faulty-coordinator.ts';
export type { ServerRoute } from './find-server.ts';
export { canShiftClock, canSlowDisk } from './find-tools.ts';
export { type DropFault, type DropOptions, GrpcProxy, startGrpcProxy } from './grpc-proxy.ts';
export { checkHistory, violationsIn } from './history/checker.ts';
export type { Finding, FindingKind } from './history/finding.ts';
export type {
  FailEvent,
  History,
  HistoryEvent,
  Info,
  InfoEvent,
  InvokeEvent,
  OkEvent,
  Operation,
  OperationResult,
  UnknownEvent,
} from './history/history.ts';
export { mergeHistories } from './history/history.ts';
export {
  type HistoryMessage,
  HistoryRecorder,
  type HistoryRecorderOptions,
  historyFromMessages,
  historyMessage,
  type OpenOperation,
  type RecordedInfo,
  type RecordedOperation,
  type RecordedProcess,
  type RecordedResult,
  type TokenLike,
} from './history/history-recorder.ts';
export { historyFromJsonLines, historyToJsonLines } from './history/history-text.ts';
export {
  type LateWrite,
  type LateWriteOptions,
  type LateWriteOutcome,
  type LateWritePlace,
  lateWrite,
} from './late-write.ts';
export { type MariadbOptions, type MariadbServer, startMariadb } from './mariadb-server.ts';
export type { RestartOptions, TestServer } from './owned-server.ts';
export { type PgBouncerOptions, type PgBouncerServer, startPgBouncer } from './pgbouncer-server.ts';
export { type PostgresOptions, type PostgresServer, startPostgres } from './postgres-server.ts';
export type { ProxyDirection } from './proxy-lane.ts';
export { type RedisOptions, type RedisServer, startRedis } from './redis-server.ts';
export type { ProcessExit } from './server-process.ts';
export { type ShiftedClock, type ShiftedClockOptions, shiftedClock } from './shifted-clock.ts';
export { type SlowDisk, type SlowDiskOptions, slowDisk } from './slow-disk.ts';
export {
  type CutOptions,
  type HeldChunk,
  type HoldOptions,
  type LostReply,
  type LostReplyOptions,
  startTcpProxy,
  type TcpProxy,
} from './tcp-proxy.ts';
export type { TcpTarget } from './tcp-target.ts';
export { type HistoryTimelineOptions, timelineOfHistory } from './timeline/from-history.ts';
export type {
  Timeline,
  TimelineAct,
  TimelineArrow,
  TimelineEvent,
  TimelineGuide,
  TimelineLane,
  TimelineNote,
  TimelinePanel,
  TimelineSpan,
} from './timeline/model.ts';
export { renderTimelinePage } from './timeline/page.ts';
export { renderTimeline } from './timeline/render-svg.ts';
export { type QueueWaitOptions, type WaitOptions, waitUntil, waitUntilQueued } from './wait-until.ts';
export type { MessageOf, Typed, WorkerMessage } from './worker/messages.ts';
export type { Pause, PauseHow, PauseOptions, ReachedOptions } from './worker/pause.ts';
export {
  type LoggedMessage,
  type NextOptions,
  startWorker,
  Worker,
  type WorkerOptions,
} from './worker/worker.ts';
export type { Freeze, RunningWorker, WorkerHost, WorkerPlan } from './worker/worker-host.ts';
