// What the testkit started in containers ends with the process that started it, whoever's engine it is (I3).
import { execFileSync } from 'node:child_process';
import { startWorker } from '@lockkeeper/testkit';
import { expect, it, vi } from 'vitest';
import type { LeavingSays } from './leaving-worker.ts';

const docker = (...args: string[]) => execFileSync('docker', args, { encoding: 'utf8' }).trim();
const networkOf = (id: string) =>
  docker('inspect', '--format', '{{range .NetworkSettings.Networks}}{{.NetworkID}}{{end}}', id);

it('a container and its network do not outlive a killed process, and others are left alone', {
  timeout: 90_000,
}, async () => {
  const workers = [0, 1].map(() => startWorker<LeavingSays>(new URL('./leaving-worker.ts', import.meta.url)));
  await using killed = await (workers[0] as (typeof workers)[0]);
  await using other = await (workers[1] as (typeof workers)[0]);
  const [ours, theirs] = [(await killed.next('started')).id, (await other.next('started')).id];
  const [network, theirNetwork] = [networkOf(ours), networkOf(theirs)];
  expect(network).not.toBe(theirNetwork);
  docker('pause', ours);
  // Not by its own verb, which ends all that the process has started.
  process.kill(killed.pid, 'SIGKILL');
  await killed.exited;
  await vi.waitFor(
    () => {
      expect(docker('ps', '--all', '--quiet', '--no-trunc')).not.toContain(ours);
      expect(docker('network', 'ls', '--quiet', '--no-trunc')).not.toContain(network);
    },
    { timeout: 60_000, interval: 100 },
  );
  expect(docker('ps', '--quiet', '--no-trunc')).toContain(theirs);
  expect(docker('network', 'ls', '--quiet', '--no-trunc')).toContain(theirNetwork);
});
