export type { DrillContext, DrillRun } from '../drill/drill-messages.ts';
export type { MessageOf, Typed, WorkerMessage } from '../worker/messages.ts';
export { pausePoint, type WorkerChannel, workerChannel } from './channel.ts';
