import { FencingToken } from '@lockkeeper/fencing';

/** What is said of a token: its revision, which is what people compare. */
export function tokenName(token: string | undefined): string {
  if (token === undefined) return 'lock';
  return `token ${revisionOf(token) ?? token}`;
}

export function revisionOf(token: string): bigint | undefined {
  if (/^[0-9]{1,19}$/.test(token)) return BigInt(token);
  try {
    return FencingToken.parse(token).revision;
  } catch {
    return undefined;
  }
}

/** Those that are known, as text. */
export function detailsOf(details: object): Readonly<Record<string, string>> {
  const known = Object.entries(details).filter(([, value]) => value !== undefined && value !== false);
  return Object.fromEntries(known.map(([name, value]) => [name, value === true ? 'yes' : String(value)]));
}
