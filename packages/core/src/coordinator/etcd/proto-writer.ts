const VARINT = 0;
const BYTES = 2;

/** One message at a time, so one buffer for all. Given up where a message was so long that it is better not kept. */
let scratch = Buffer.allocUnsafeSlow(64 * 1024);
const LONGEST_KEPT = 1024 * 1024;

/** For the halves of 64-bit integers, without making further ones. */
const halves = new DataView(new ArrayBuffer(8));

/**
 * Writes a protobuf message from its end to its beginning: so the length of what is nested is known when it is needed,
 * and nothing is built first. Fields of a message, and the elements of a repeated one, are therefore written last to
 * first. Nothing else may use a writer until `finish()`.
 */
export class ProtoWriter {
  #buffer = scratch;
  #at: number = scratch.length;

  /** A place to give to `nested`. */
  get mark(): number {
    return this.#buffer.length - this.#at;
  }

  /** What was written since `mark` becomes a message in this field. */
  nested(field: number, mark: number): void {
    const length = this.mark - mark;
    this.#varint(length);
    this.#varint(field * 8 + BYTES);
  }

  text(field: number, text: string): void {
    const length = Buffer.byteLength(text);
    this.#make(length);
    this.#buffer.write(text, this.#at, length, length === text.length ? 'latin1' : 'utf8');
    this.#varint(length);
    this.#varint(field * 8 + BYTES);
  }

  bytes(field: number, bytes: Uint8Array): void {
    this.#make(bytes.length);
    this.#buffer.set(bytes, this.#at);
    this.#varint(bytes.length);
    this.#varint(field * 8 + BYTES);
  }

  /** Of an unsigned number up to 2^31, or a flag. */
  number(field: number, value: number): void {
    this.#varint(value);
    this.#varint(field * 8 + VARINT);
  }

  int64(field: number, value: bigint): void {
    halves.setBigInt64(0, value);
    let high = halves.getUint32(0);
    let low = halves.getUint32(4);
    let length = 1;
    for (let h = high, l = low; h > 0 || l > 127; length += 1) {
      l = ((l >>> 7) | (h << 25)) >>> 0;
      h >>>= 7;
    }
    this.#make(length);
    let at = this.#at;
    for (; high > 0 || low > 127; at += 1) {
      this.#buffer[at] = (low & 127) | 128;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    this.#buffer[at] = low;
    this.#varint(field * 8 + VARINT);
  }

  finish(): Buffer {
    const message = Buffer.from(this.#buffer.subarray(this.#at));
    scratch = this.#buffer.length <= LONGEST_KEPT ? this.#buffer : scratch;
    return message;
  }

  #varint(value: number): void {
    let length = 1;
    for (let left = value; left > 127; left >>>= 7) length += 1;
    this.#make(length);
    let left = value;
    let at = this.#at;
    for (; left > 127; left >>>= 7, at += 1) this.#buffer[at] = (left & 127) | 128;
    this.#buffer[at] = left;
  }

  /** Room for so many bytes before what is written already. */
  #make(bytes: number): void {
    if (this.#at < bytes) {
      const written = this.mark;
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#buffer.length * 2, written + bytes));
      this.#buffer.copy(larger, larger.length - written, this.#at);
      this.#buffer = larger;
      this.#at = larger.length - written;
    }
    this.#at -= bytes;
  }
}
