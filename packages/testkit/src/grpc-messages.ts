const HEAD_BYTES = 5;

/**
 * Cuts a gRPC stream's bytes into its messages, each with its head of five bytes: one for compression, four for
 * the length of what follows. DATA frames of HTTP/2 may end anywhere in a message.
 */
export class GrpcMessages {
  #rest: Buffer = Buffer.alloc(0);

  /** @returns the messages that are whole now. */
  push(chunk: Buffer): Buffer[] {
    const messages: Buffer[] = [];
    let bytes = Buffer.concat([this.#rest, chunk]);
    while (bytes.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + bytes.readUInt32BE(1);
      if (bytes.length < end) break;
      messages.push(bytes.subarray(0, end));
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return messages;
  }
}
