import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';

export interface FakeMember extends AsyncDisposable {
  readonly endpoint: string;
  /** How often it was asked to renew a lease. */
  readonly renewals: number;
}

const KEEP_ALIVE = '/etcdserverpb.Lease/LeaseKeepAlive';
const WATCH = '/etcdserverpb.Watch/Watch';
const STATUS = '/etcdserverpb.Maintenance/Status';
const UNAVAILABLE = '14';

/**
 * A member that came back from a reboot without its leases: it answers every renewal as etcd answers for a
 * lease it does not know, with the lease's id and no time-to-live. Watches it accepts and never answers; it is
 * not available for anything else.
 */
export async function startForgetfulMember(): Promise<FakeMember> {
  let renewals = 0;
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => {});
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    switch (headers[':path']) {
      case KEEP_ALIVE:
        renewals += 1;
        return answerRenewals(stream);
      case WATCH:
        return stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      case STATUS:
        return end(stream, [grpcMessage(Buffer.alloc(0))], '0');
      default:
        return end(stream, [], UNAVAILABLE);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get renewals() {
      return renewals;
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const session of sessions) session.destroy();
      await closed;
    },
  };
}

function answerRenewals(stream: ServerHttp2Stream): void {
  stream.on('data', (request: Buffer) => {
    // The request is one field, the id, as field 1; the reply has it as field 2, and a TTL of 0 is left out.
    const reply = Buffer.from(request.subarray(5));
    reply[0] = 0x10;
    end(stream, [grpcMessage(reply)], '0');
  });
}

function end(stream: ServerHttp2Stream, messages: readonly Buffer[], status: string): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': 'fake' }));
  for (const message of messages) stream.write(message);
  stream.end();
}

function grpcMessage(payload: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}
