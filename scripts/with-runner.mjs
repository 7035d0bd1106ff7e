// Loaded into the processes that run.mjs starts: such a process ends when its runner does, however that ended.
// The runner's death is seen by the end of a pipe that only the runner holds.

import { Socket } from 'node:net';

const RUNNER_PIPE = 3;

// Processes started from here inherit the loader and the environment, but have another parent and no pipe.
if (process.env['LOCKKEEPER_RUNNER'] === String(process.ppid)) {
  new Socket({ fd: RUNNER_PIPE, readable: true, writable: false })
    .once('close', () => process.kill(process.pid, 'SIGTERM'))
    .resume()
    .unref();
}
