/**
 * An upper estimate of a text's width in pixels, good for the sans-serif fonts of common systems: there is
 * nothing to measure with where the picture is made, and a reader's font may be another one.
 */
export function textWidth(text: string, fontSize: number, weight: 'regular' | 'bold' = 'regular'): number {
  let ems = 0;
  for (const character of text) ems += widthInEms(character);
  return ems * fontSize * (weight === 'bold' ? 1.13 : 1);
}

function widthInEms(character: string): number {
  if (/[iljt.,:;'’|!()[\]fr ]/.test(character)) return 0.38;
  if (/[mwMW@%—→≥]/.test(character)) return 0.95;
  if (/[A-Z]/.test(character)) return 0.72;
  if (character.charCodeAt(0) > 0x2e80) return 1.05;
  return 0.61;
}
