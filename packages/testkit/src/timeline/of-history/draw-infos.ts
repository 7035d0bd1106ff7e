import type { InfoEvent } from '../../history/history.ts';
import type { Scene } from './scene.ts';
import { detailsOf } from './words.ts';

export function drawInfos(scene: Scene): void {
  const open = new Map<string, InfoEvent>();
  const close = (from: InfoEvent, to: InfoEvent | undefined) => {
    const kind = from.f === 'pause' ? 'paused' : 'fault';
    const name = 'name' in from ? from.name : undefined;
    const label =
      name ?? (to === undefined ? 'stopped' : `stopped for ${((to.atMs - from.atMs) / 1000).toFixed(1)} s`);
    const toMs = to && scene.at(to);
    scene.process(from.process).spans.push({ kind, fromMs: scene.at(from), toMs, label });
  };
  for (const event of scene.history) {
    if (event.type !== 'info') continue;
    const draft = scene.process(event.process);
    const begins = event.f === 'pause' || event.f === 'fault';
    const paused = event.f === 'pause' || event.f === 'resume';
    const key = JSON.stringify([event.process, paused ? '' : 'name' in event && event.name]);
    if (begins) open.set(key, event);
    if (event.f === 'resume' || event.f === 'mend') {
      const from = open.get(key);
      if (from) close(from, event);
      open.delete(key);
    }
    if (event.f === 'resume') draft.events.push({ kind: 'woken', atMs: scene.at(event), label: 'is woken' });
    if (event.f !== 'loss') continue;
    scene.places.set(event, draft.id);
    const { token, cause, lock } = event;
    const label = `told: lock lost${cause === undefined ? '' : ` (${cause})`}`;
    draft.events.push({
      kind: 'aborted',
      atMs: scene.at(event),
      label,
      token,
      details: detailsOf({ Lock: lock }),
    });
  }
  for (const from of open.values()) close(from, undefined);
}
