// A server on a port of its own: what all servers of one port have in common, however they are configured.
import { TestkitError } from './errors.ts';
import type { ServerRoute } from './find-server.ts';
import { freePorts } from './free-ports.ts';
import { OwnedServer, type OwnedServerPlan, TemporaryFolder, type TestServer } from './owned-server.ts';

const BIND_TRIES = 5;

/** Launches a server in a temporary folder on a free port, and on another one where that was taken meanwhile. */
export async function startOwned(
  prefix: string,
  planFor: (folder: string, port: number) => OwnedServerPlan,
): Promise<{ readonly port: number; readonly owned: OwnedServer }> {
  const folder = new TemporaryFolder(prefix);
  try {
    for (let tries = 1; ; tries++) {
      const [port] = (await freePorts(1)) as [number];
      const plan = planFor(folder.path, port);
      try {
        return { port, owned: new OwnedServer(plan, folder, await plan.launch()) };
      } catch (error) {
        const isTaken = error instanceof TestkitError && /address already in use/i.test(error.message);
        if (!isTaken || tries === BIND_TRIES) throw error;
      }
    }
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

/** The verbs of a server that this process started. */
export function ownedVerbs(
  programs: { readonly version: string; readonly route: ServerRoute },
  owned: OwnedServer,
): TestServer {
  const stop = () => owned.stop();
  return {
    version: programs.version,
    route: programs.route,
    get pid() {
      return owned.pid;
    },
    pause: () => owned.pause(),
    resume: () => owned.resume(),
    kill: () => owned.kill(),
    restart: (options) => owned.restart(options),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/**
 * The settings, none of which is one that the testkit itself needs to have its own way.
 * @throws TestkitError `invalid-option`
 */
export function checkSettings(
  settings: Readonly<Record<string, string>> | undefined,
  ours: readonly string[],
): [name: string, value: string][] {
  const entries = Object.entries(settings ?? {});
  for (const [name, value] of entries) {
    // Servers read `log_error`, `log-error` and `LOG_ERROR` as the same setting.
    const plain = name.toLowerCase().replaceAll('_', '-');
    if (ours.includes(plain)) {
      throw new TestkitError('invalid-option', `settings.${name} is "${value}"; the testkit sets it itself`);
    }
    if (/[\r\n\0]/.test(name + value)) {
      const shown = JSON.stringify(value);
      throw new TestkitError('invalid-option', `settings.${name} is ${shown}; expected a single line`);
    }
  }
  return entries;
}
