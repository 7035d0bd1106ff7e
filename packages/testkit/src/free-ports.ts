import { createServer } from 'node:net';
import { TestkitError } from './errors.ts';

/**
 * Ports below the ranges from which systems draw the ports of outgoing connections (32768 on Linux, 49152
 * elsewhere): a server that comes back on its port finds it untaken.
 */
const FIRST = 20_000;
const LAST = 32_000;

/**
 * Draws ports on which nothing listens at 127.0.0.1. Another process can still take one before it is used:
 * whoever binds it retries with new ones.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  for (let tries = 0; ports.size < count; tries++) {
    if (tries > 1_000) throw new TestkitError('start-failed', `no free port from ${FIRST} to ${LAST}`);
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
