import type { Socket } from 'node:net';

/**
 * Closes a socket with an RST, or plainly while its FIN is just being sent: libuv refuses a reset then, and the
 * socket would never close.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy();
  else socket.resetAndDestroy();
}
