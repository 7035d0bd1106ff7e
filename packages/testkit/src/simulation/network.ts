import type { Random } from './random.ts';
import type { World } from './world.ts';

/** How the network of one simulation behaves: the chances of what may befall a single message. */
export interface NetworkPlan {
  readonly slow: number;
  readonly slowestMs: number;
  readonly loseRequest: number;
  readonly loseReply: number;
  readonly duplicate: number;
  /** The caller is told `unreachable` early; the request goes on. */
  readonly reset: number;
  /** Told `limit-exceeded`; nothing was applied. */
  readonly refuse: number;
}

/** What befalls one request and its reply. Everything is drawn when it is sent, from its name alone. */
export interface Fate {
  readonly id: string;
  readonly requestMs: number;
  readonly replyMs: number;
  readonly loseRequest: boolean;
  readonly loseReply: boolean;
  /** A second copy arrives this much later. */
  readonly duplicateMs: number | undefined;
  readonly resetMs: number | undefined;
  readonly refused: boolean;
  /** What a link that is cut does to it: loses it, or delivers it when it heals (as TCP does). */
  readonly whenCut: 'lost' | 'late';
  /** For choices of the server that receives it. */
  readonly coin: number;
}

/**
 * Between the processes and the servers. A message's fate is a function of the seed and the message's name,
 * so leaving something out of a plan leaves the fates of all other messages as they were.
 */
export class Network {
  /** The names of messages that something befell, in order: what shrinking can spare. */
  readonly disturbed: string[] = [];
  readonly #world: World;
  readonly #random: Random;
  readonly #plan: NetworkPlan;
  readonly #spared: ReadonlySet<string>;
  readonly #cutUntil = new Map<string, number>();
  #healedAt = Number.POSITIVE_INFINITY;

  constructor(world: World, random: Random, plan: NetworkPlan, spared: readonly string[]) {
    this.#world = world;
    this.#random = random;
    this.#plan = plan;
    this.#spared = new Set(spared);
  }

  /** From now on nothing befalls a message any more. What is on its way already, still arrives as it will. */
  heal(): void {
    this.#healedAt = this.#world.now;
    this.#cutUntil.clear();
  }

  /** Nothing passes between this process and the servers. */
  cut(process: string, ms: number): void {
    this.#cutUntil.set(process, Math.max(this.#cutUntil.get(process) ?? 0, this.#world.now + ms));
  }

  isCut(process: string): boolean {
    return this.#world.now < (this.#cutUntil.get(process) ?? 0);
  }

  randomFor(id: string): Random {
    return this.#random.fork(id);
  }

  fateOf(id: string): Fate {
    const random = this.randomFor(id);
    const fate = {
      id,
      requestMs: random.between(0.1, 3),
      replyMs: random.between(0.1, 3),
      loseRequest: false,
      loseReply: false,
      duplicateMs: undefined,
      resetMs: undefined,
      refused: false,
      whenCut: random.chance(0.5) ? ('late' as const) : ('lost' as const),
      coin: random.next(),
    };
    if (this.#world.now >= this.#healedAt) return fate;
    const plan = this.#plan;
    const disturbances: Partial<Fate> = {
      ...(random.chance(plan.slow) && { requestMs: random.skewed(5, plan.slowestMs) }),
      ...(random.chance(plan.slow) && { replyMs: random.skewed(5, plan.slowestMs) }),
      ...(random.chance(plan.loseRequest) && { loseRequest: true }),
      ...(random.chance(plan.loseReply) && { loseReply: true }),
      ...(random.chance(plan.duplicate) && { duplicateMs: random.skewed(0.1, plan.slowestMs) }),
      ...(random.chance(plan.reset) && { resetMs: random.skewed(0.5, 200) }),
      ...(random.chance(plan.refuse) && { refused: true }),
    };
    if (Object.keys(disturbances).length === 0 || this.#spared.has(id)) return fate;
    this.disturbed.push(id);
    return { ...fate, ...disturbances };
  }

  /** Calls `arrive` when the message is through, or never. */
  carry(process: string, fate: Fate, delayMs: number, arrive: () => void): void {
    const cutUntil = this.#cutUntil.get(process) ?? 0;
    if (this.#world.now >= cutUntil) this.#world.after(delayMs, arrive);
    else if (fate.whenCut === 'late') this.#world.at(cutUntil + delayMs, arrive);
  }
}
