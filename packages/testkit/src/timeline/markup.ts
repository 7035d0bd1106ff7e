export function text(className: string, x: number, y: number, content: string): string {
  return svg`<text class="${className}" x="${x}" y="${y}">${escapeText(content)}</text>`;
}

/** Pixels are written to a tenth. */
export function svg(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  const written = values.map((value) => (typeof value === 'number' ? Math.round(value * 10) / 10 : value));
  return String.raw({ raw: parts }, ...written);
}

/** Control characters are not allowed in XML at all, so they go. */
export function escapeText(content: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  return content
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '')
    .replace(/[&<>"]/g, (character) => entities[character] ?? '');
}

/** Two timelines in one page must not share ids, which are global there. */
export function hash(content: string): string {
  let value = 5381;
  for (const character of content) value = (Math.imul(value, 33) ^ (character.codePointAt(0) ?? 0)) >>> 0;
  return value.toString(36);
}
