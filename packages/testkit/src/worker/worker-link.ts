// The parent's end of the way to one worker: a Unix socket in the worker's folder. Not the network, so that no
// fault of the network that a test makes can reach it.
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { TestkitError } from '../errors.ts';
import { frameOf, readFrames, writeFrame } from './frames.ts';
import { type DownEnvelope, socketOf, type UpEnvelope } from './messages.ts';

/** Of a Unix socket, on Linux and macOS. */
const LONGEST_PATH = 103;

export class WorkerLink {
  readonly #server: Server;
  readonly #take: (envelope: UpEnvelope) => void;
  /** What is to be said once the worker has come. */
  readonly #early: Buffer[] = [];
  #socket: Socket | undefined;

  /** Listens before the worker is started, so that it need not try again. */
  static async open(folder: string, take: (envelope: UpEnvelope) => void): Promise<WorkerLink> {
    const path = socketOf(folder);
    if (Buffer.byteLength(path) > LONGEST_PATH) {
      // Node would cut the path off, and two workers might meet.
      const why = `no socket can be at ${path}: the temporary folder (TMPDIR) is too long`;
      throw new TestkitError('start-failed', `${why}; a path has ${LONGEST_PATH} bytes at most`);
    }
    const server = createServer();
    const link = new WorkerLink(server, take);
    server.listen(path);
    await once(server, 'listening');
    return link;
  }

  private constructor(server: Server, take: (envelope: UpEnvelope) => void) {
    this.#server = server;
    this.#take = take;
    server.on('connection', (socket) => this.#connected(socket));
  }

  /**
   * In order, and as it is now. A worker that ends meanwhile does not get it.
   * @throws DataCloneError
   */
  send(envelope: DownEnvelope): void {
    const frame = frameOf(envelope);
    if (this.#socket === undefined) this.#early.push(frame);
    else void this.#write(this.#socket, frame);
  }

  /** Call it when the worker has ended. Resolves when all that it said has been taken. */
  async end(): Promise<void> {
    // One that came, spoke and went may still stand in the queue of the socket, which is looked at once a turn.
    for (let turns = 0; turns < 2; turns += 1) await turn();
    this.#server.close();
    if (this.#socket !== undefined && !this.#socket.closed) await once(this.#socket, 'close');
  }

  #connected(socket: Socket): void {
    // One worker, one way. What it starts does not get its variable; whoever comes all the same is turned away.
    if (this.#socket !== undefined) return void socket.destroy();
    this.#socket = socket;
    // How it ended shows in the exit of the worker.
    socket.on('error', () => {});
    readFrames<UpEnvelope>(socket, this.#take);
    for (const frame of this.#early.splice(0)) void this.#write(socket, frame);
  }

  async #write(socket: Socket, frame: Buffer): Promise<void> {
    try {
      await writeFrame(socket, frame);
    } catch (error) {
      // A worker that ends with a message on its way shows in `exited` and in every `next`.
      if (!socket.destroyed) throw error;
    }
  }
}
