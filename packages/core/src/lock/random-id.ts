import { randomFillSync } from 'node:crypto';

const BYTES = 16;

/** Drawn ahead: asking the system for 256 costs hardly more than asking for one. */
const drawn = Buffer.alloc(256 * BYTES);
let used = drawn.length;

/** 128 random bits, as 22 characters that need no encoding anywhere. */
export function randomId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += BYTES;
  return drawn.toString('base64url', used - BYTES, used);
}
