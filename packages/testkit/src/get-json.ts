import * as http from 'node:http';
import * as https from 'node:https';
import { text } from 'node:stream/consumers';

/** One request on a connection of its own, which leaves no idle socket behind as `fetch` does. */
export async function getText(url: string, timeoutMs = 3_000): Promise<string> {
  return (await ask(url, timeoutMs)).body;
}

export async function getJson<T>(url: string, timeoutMs?: number): Promise<T> {
  return JSON.parse(await getText(url, timeoutMs)) as T;
}

/** @throws Error with the answer where its status is not 200. */
export async function postJson<T>(url: string, request: object, timeoutMs = 3_000): Promise<T> {
  const { status, body } = await ask(url, timeoutMs, JSON.stringify(request));
  if (status !== 200) throw new Error(`status ${status}: ${body.trim()}`);
  return JSON.parse(body) as T;
}

function ask(url: string, timeoutMs: number, sent?: string): Promise<{ status: number; body: string }> {
  const { request } = url.startsWith('https:') ? https : http;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const method = sent === undefined ? 'GET' : 'POST';
    const asking = request(url, { agent: false, signal, method }, (reply) => {
      text(reply).then((body) => resolve({ status: reply.statusCode ?? 0, body }), reject);
    });
    asking.once('error', reject);
    asking.end(sent);
  });
}
