export type { MessageOf, Typed, WorkerMessage } from '../worker/messages.ts';
export { pausePoint, type WorkerChannel, workerChannel } from './channel.ts';
