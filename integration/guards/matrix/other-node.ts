// Runs a program of ours in another Node, for what this one cannot load: node:sqlite comes with Node 22.
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

const LIMIT_MS = 300_000;

/** What `program`, a module of TypeScript, writes to stdout as one JSON document. What it says on stderr passes. */
export function runInNode<T>(node: string, program: URL, args: readonly string[] = []): Promise<T> {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const flags = ['--disable-warning=ExperimentalWarning', '--conditions=@lockkeeper/source', '--import', tsx];
  return new Promise((resolve, reject) => {
    const options = { timeout: LIMIT_MS, maxBuffer: 2 ** 26 };
    const child = execFile(node, [...flags, fileURLToPath(program), ...args], options, (error, stdout) => {
      if (error) reject(error);
      else resolve(JSON.parse(stdout) as T);
    });
    child.stderr?.pipe(process.stderr);
  });
}
