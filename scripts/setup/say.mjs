// What set-up tells the user: one line a step, on stderr, because stdout belongs to the command that follows.

const HEARTBEAT_MS = 5_000;

/** @param {string} line */
export function say(line) {
  process.stderr.write(`[set-up] ${line}\n`);
}

/**
 * Says what is being done, and every few seconds that it is still being done.
 *
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(what, work) {
  say(`${what} …`);
  const startedAt = performance.now();
  const elapsed = () => `${Math.round((performance.now() - startedAt) / 1_000)} s`;
  const heartbeat = setInterval(() => say(`… still at it after ${elapsed()}`), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
  }
}

/**
 * What stops a command before it starts, in words that tell the user what to do. It is shown without a stack.
 */
export class SetUpError extends Error {
  /** @override */
  name = 'SetUpError';
}
