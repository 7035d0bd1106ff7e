// One process of a drill: loads the user's module, runs it once, and tells what becomes of its holds.
import { subscribe } from 'node:diagnostics_channel';
import type { TelemetryEvents } from '@lockkeeper/core';
import { isWithoutEffect } from '../history/history-recorder.ts';
import { onPausePoint, pausePoint, workerChannel } from '../inside/channel.ts';
import type { DrillCommand, DrillMessage, DrillOrder, DrillRun, HoldMessage } from './drill-messages.ts';

const { report, onCommand } = workerChannel<DrillMessage, DrillCommand>();
const [url = ''] = process.argv.slice(2);

const HOLD_EVENTS = ['granted', 'lost', 'released'] as const;

for (const type of HOLD_EVENTS) {
  const name = `lockkeeper:lock:${type}` as const;
  subscribe(name, (event) => {
    const { name: lock, token, ...rest } = event as TelemetryEvents[typeof name];
    const waited = 'waitedMs' in rest ? { waitedMs: rest.waitedMs } : {};
    const message: HoldMessage = { type, lock, token: String(token), ...waited };
    void report(message);
  });
}
onPausePoint((point) => void report({ type: 'passed', point }));

async function perform(run: DrillRun, order: DrillOrder): Promise<void> {
  try {
    await run({ ...order, pausePoint });
  } catch (error) {
    const rejected = isWithoutEffect(error);
    return report({ type: 'failed', error: String(error), rejected });
  }
  return report({ type: 'done' });
}

const { run } = (await import(url)) as { readonly run?: DrillRun };
if (typeof run !== 'function') throw new TypeError(`${url} exports no function "run"`);
const listening = onCommand(({ order }) => {
  listening[Symbol.dispose]();
  return perform(run, order);
});
await report({ type: 'ready' });
