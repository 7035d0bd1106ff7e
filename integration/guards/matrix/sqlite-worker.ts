// The column of SQLite, in a Node that can load a driver. One JSON document on stdout: a `Matrix`.
import { runStorage } from './run-storage.ts';

const matrix = await runStorage('sqlite', (line) => process.stderr.write(`${line}\n`));
process.stdout.write(JSON.stringify(matrix));
