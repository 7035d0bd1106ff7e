// Whom a program runs as that refuses root and users without a name, as PostgreSQL and PgBouncer do.
import { execFileSync } from 'node:child_process';
import { userInfo } from 'node:os';

/** `nobody`: a name in every passwd file, which is all that they ask of a user besides not being root. */
const NOBODY = 65534;

/** Put before the command, or switched to. */
export interface Identity {
  readonly prefix: readonly string[];
  readonly uid?: number;
}

/**
 * A user namespace in which we are `nobody` satisfies them and still reaches folders that only we may enter; where
 * the kernel allows none, root becomes `nobody`.
 */
export function identity(): Identity {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && hasName()) return { prefix: [] };
  const prefix = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];
  try {
    execFileSync('unshare', [...prefix.slice(1), 'true'], { stdio: 'ignore' });
    return { prefix };
  } catch {
    return isRoot ? { prefix: [], uid: NOBODY } : { prefix: [] };
  }
}

function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}
