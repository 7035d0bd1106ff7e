// SQLite's part of the benchmark, in a Node that can load a driver. One JSON document on stdout: a `Measured`.
import { measure } from './measure.ts';

const [rounds, sliceMs] = process.argv.slice(2).map(Number);
const plan = { rounds: rounds ?? 1, sliceMs: sliceMs ?? 100 };
process.stdout.write(JSON.stringify(await measure('sqlite', plan)));
