// How a client reaches its server: through a proxy of its own, or straight, for measurements.
import { startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import type { ClientOptions } from './store.ts';

export interface Way {
  readonly url: string;
  readonly proxy: TcpProxy | undefined;
  close(): Promise<void>;
}

export async function openWay(target: string, { direct = false }: ClientOptions = {}): Promise<Way> {
  if (direct) return { url: target, proxy: undefined, close: async () => {} };
  const proxy = await startTcpProxy(target);
  return { url: proxy.url, proxy, close: () => proxy.close() };
}
