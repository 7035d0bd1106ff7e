import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type Http2Stream,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { GrpcMessages } from './grpc-messages.ts';
import type { ProxyDirection } from './proxy-lane.ts';

/** What is to be lost of a call's messages in one direction, and until when. */
export interface MessageLoss {
  dropped: number;
  readonly over: { readonly promise: Promise<void> };
}

type FindLoss = (direction: ProxyDirection) => MessageLoss | undefined;

/** Headers that belong to a connection, or that Node writes itself. */
const NOT_PASSED_ON = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
]);

/** Passes one call on, whole messages at a time: both directions, the trailers, and a reset by either side. */
export function joinCall(
  call: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  server: ClientHttp2Session,
  lossOf: FindLoss,
): void {
  call.on('error', () => {});
  if (server.destroyed || server.closed) {
    call.close(constants.NGHTTP2_REFUSED_STREAM);
    return;
  }
  const onward = server.request(passedOn(headers), { endStream: false });
  onward.on('error', () => {});
  carry(call, onward, () => lossOf('request'));
  carryReply(onward, call, () => lossOf('reply'));
  call.once('close', () => {
    if (!onward.closed) onward.close(call.rstCode || constants.NGHTTP2_CANCEL);
  });
  onward.once('close', () => {
    // A call that ended well closes by itself, once its trailers are sent.
    if (onward.rstCode !== constants.NGHTTP2_NO_ERROR) call.close(onward.rstCode);
  });
}

function carryReply(
  from: ClientHttp2Stream,
  to: ServerHttp2Stream,
  loss: () => MessageLoss | undefined,
): void {
  let trailers: IncomingHttpHeaders = {};
  from.once('trailers', (received) => {
    trailers = received;
  });
  from.once('response', (headers, flags) => {
    if (to.destroyed || to.closed) return;
    if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) {
      to.respond(passedOn(headers), { endStream: true });
      return;
    }
    to.once('wantTrailers', () => to.sendTrailers(passedOn(trailers)));
    to.respond(passedOn(headers), { waitForTrailers: true });
    carry(from, to, loss);
  });
}

/** One direction: every message that is not lost, then the end. */
function carry(from: Http2Stream, to: Http2Stream, lossOf: () => MessageLoss | undefined): void {
  const messages = new GrpcMessages();
  from.on('data', (chunk: Buffer) => {
    for (const message of messages.push(chunk)) {
      const loss = lossOf();
      if (loss !== undefined) loss.dropped += 1;
      else if (isOpen(to) && !to.write(message)) from.pause();
    }
  });
  to.on('drain', () => from.resume());
  from.once('end', async () => {
    for (let loss = lossOf(); loss !== undefined; loss = lossOf()) await loss.over.promise;
    if (isOpen(to)) to.end();
  });
}

function isOpen(stream: Http2Stream): boolean {
  return !stream.destroyed && !stream.closed && stream.writable;
}

function passedOn(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !NOT_PASSED_ON.has(name)));
}
