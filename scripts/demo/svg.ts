// The few shapes a timeline needs, as SVG text. Everything that comes in is escaped.

export type Attributes = Readonly<Record<string, string | number>>;

export function element(name: string, attributes: Attributes, content?: string): string {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(rounded(value))}"`);
  const open = `<${name}${list.join('')}`;
  return content === undefined ? `${open}/>` : `${open}>${content}</${name}>`;
}

export function text(x: number, y: number, content: string, style: string, more: Attributes = {}): string {
  return element('text', { x, y, class: style, ...more }, escaped(content));
}

export function box(x1: number, x2: number, y: number, height: number, style: string): string {
  return element('rect', { x: x1, y, width: Math.max(0, x2 - x1), height, rx: 3, class: style });
}

export function line(
  points: readonly (readonly [number, number])[],
  style: string,
  more: Attributes = {},
): string {
  const path = points.map(([x, y]) => `${rounded(x)},${rounded(y)}`).join(' ');
  return element('polyline', { points: path, class: style, ...more });
}

export function dot(x: number, y: number, style: string): string {
  return element('circle', { cx: x, cy: y, r: 3.5, class: style });
}

export function escaped(content: string | number): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
  };
  return `${content}`.replace(/[&<>"]/g, (character) => entities[character] ?? character);
}

function rounded(value: string | number): string | number {
  return typeof value === 'number' ? Math.round(value * 10) / 10 : value;
}
