import * as http from 'node:http';
import * as https from 'node:https';
import { text } from 'node:stream/consumers';

/** One request on a connection of its own, which leaves no idle socket behind as `fetch` does. */
export function getText(url: string, timeoutMs = 3_000): Promise<string> {
  const { get } = url.startsWith('https:') ? https : http;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    get(url, { agent: false, signal }, (reply) => {
      text(reply).then(resolve, reject);
    }).once('error', reject);
  });
}

export async function getJson<T>(url: string, timeoutMs?: number): Promise<T> {
  return JSON.parse(await getText(url, timeoutMs)) as T;
}
