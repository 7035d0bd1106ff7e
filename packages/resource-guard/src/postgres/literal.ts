// How names and texts become SQL.

/** An ASCII literal that means the same under every client encoding and string setting. */
export function literal(text: string): string {
  const escaped = Array.from(text, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code >= 0x20 && code < 0x7f && character !== "'" && character !== '\\') return character;
    return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  });
  return `E'${escaped.join('')}'`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

export function quote(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}
