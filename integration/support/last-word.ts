import { writeSync } from 'node:fs';
import type { Worker } from '@lockkeeper/testkit';

/** A worker's last line of code: on stdout it tells how long the process lives on after it, by its own clock. */
export function lastWord(): void {
  const since = performance.now();
  process.once('exit', () => writeSync(1, `${performance.now() - since}`));
}

/** How many milliseconds a worker lived on after its last word. Its parent may not even run when it ends. */
export async function livedOnMs(
  worker: Pick<Worker, 'exited'> & { readonly stdout: string },
): Promise<number> {
  await worker.exited;
  return Number.parseFloat(worker.stdout);
}
