// Where the story is written: columns, and colours where somebody looks at a terminal.
import type { Tone } from './telling.ts';

/** What this needs of a stream. */
export interface Paper {
  write(text: string): unknown;
  readonly isTTY?: boolean;
}

/** Parameters of the terminal's "select graphic rendition". */
const TONES: Readonly<Record<Tone, string>> = { plain: '', hindered: '33', harm: '1;31', refused: '1;32' };
const BOLD = '1';

export class Page {
  readonly #paper: Paper;
  readonly #coloured: boolean;

  constructor(paper: Paper, env: NodeJS.ProcessEnv = process.env) {
    this.#paper = paper;
    // https://no-color.org: present and not empty.
    this.#coloured = paper.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  }

  line(text = ''): void {
    this.#paper.write(`${text}\n`);
  }

  heading(text: string): void {
    this.line(this.#styled(BOLD, text));
  }

  columns(time: string, who: string, what: string, tone: Tone = 'plain'): void {
    const row = `${time.padStart(8)}  ${who.padEnd(11)}  ${what}`;
    this.line(this.#styled(TONES[tone], row));
  }

  #styled(style: string, text: string): string {
    return this.#coloured && style !== '' ? `\u001b[${style}m${text}\u001b[0m` : text;
  }
}
