import { invalid } from './options.ts';

/** Looks at bytes as they arrive: TCP may cut one message in two, or join several into one chunk. */
export type ChunkMatcher = (chunk: Buffer) => boolean;

/** Matches a chunk that contains the text or bytes, which are not empty: etcd's keys and values travel as they are. */
export function chunkContaining(text: string | Uint8Array): ChunkMatcher {
  if (!(text?.length > 0)) throw invalid('text', text, 'what is in the chunk');
  const bytes = Buffer.from(text);
  return (chunk) => chunk.includes(bytes);
}

/**
 * Matches a chunk that brings PostgreSQL a statement (a simple Query, or the Parse of an extended one) whose
 * SQL contains `text`, upper and lower case told apart. Values of parameters are not searched, and neither
 * is a message whose beginning came in an earlier chunk.
 */
export function postgresQueryContaining(text: string): ChunkMatcher {
  if (typeof text !== 'string' || text === '') throw invalid('text', text, 'what is in the SQL');
  return (chunk) => {
    // Each message: its type in one byte, then its length, which counts itself but not the type.
    for (let start = 0; start + 5 <= chunk.length; ) {
      const type = String.fromCharCode(chunk[start] ?? 0);
      const length = chunk.readUInt32BE(start + 1);
      const end = start + 1 + length;
      const bringsSql = type === 'Q' || type === 'P';
      if (bringsSql && chunk.subarray(start + 5, end).includes(text)) return true;
      if (length < 4) return false;
      start = end;
    }
    return false;
  };
}
