// What to do about a server that is not in reach: every way to come by it, and why our own way failed.

import { LOWEST_ETCD } from './etcd.mjs';
import { PACKAGED } from './packaged.mjs';
import { LOWEST_POSTGRES } from './postgres.mjs';

/**
 * @param {string | undefined} forced  the route that was insisted on
 * @param {readonly string[]} reasons
 */
export const etcdInstruction = (forced, reasons) =>
  [
    `There is no etcd in reach${forced ? ` by the route "${forced}"` : ''}. Do one of these:`,
    `- install etcd ${LOWEST_ETCD} or newer, so that etcd and etcdctl are on PATH`,
    '  (Debian, Ubuntu: apt-get install etcd-server etcd-client; macOS: brew install etcd;',
    "  elsewhere: the distribution's package, or the programs of an etcd release)",
    '- start one yourself and set ETCD_ENDPOINTS, for example to http://127.0.0.1:2379',
    ...(reasons.length > 0 ? ['What was tried:', ...reasons] : []),
  ].join('\n');

/**
 * @param {string | undefined} forced  the route that was insisted on
 * @param {string | undefined} reason
 */
export const postgresInstruction = (forced, reason) =>
  [
    `There is no PostgreSQL in reach${forced ? ` by the route "${forced}"` : ''}. Do one of these:`,
    `- install PostgreSQL ${LOWEST_POSTGRES} or newer (Debian, Ubuntu: apt-get install postgresql;`,
    "  macOS: brew install postgresql@17; elsewhere: the distribution's package), with its programs on PATH",
    '- start one yourself and set POSTGRES_URL, for example to postgres://me@127.0.0.1:5432/postgres',
    ...(reason ? ['What was tried:', reason] : []),
  ].join('\n');

/**
 * @param {string | undefined} forced  the route that was insisted on
 * @param {import('./packaged.mjs').Name} name
 * @param {string | undefined} reason
 */
export function packagedInstruction(forced, name, reason) {
  const { title, lowest, program, install, address } = PACKAGED[name];
  return [
    `There is no ${title} in reach${forced ? ` by the route "${forced}"` : ''}. Do one of these:`,
    `- install ${title} ${lowest} or newer (${install};`,
    `  elsewhere: the distribution's package), with ${program.split('/').at(-1)} on PATH`,
    ...(address
      ? [`- start one yourself and set ${address.variable}, for example to ${address.example}`]
      : []),
    ...(reason ? ['What was tried:', reason] : []),
  ].join('\n');
}
