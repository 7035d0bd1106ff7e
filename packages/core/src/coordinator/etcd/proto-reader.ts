const halves = new DataView(new ArrayBuffer(8));

/** Reads a protobuf message field by field. @throws RangeError for one that is cut off or malformed. */
export class ProtoReader {
  readonly #buffer: Buffer;
  #at: number;
  #end: number;
  #wireType = 0;

  constructor(buffer: Buffer, from = 0, end: number = buffer.length) {
    this.#buffer = buffer;
    this.#at = from;
    this.#end = end;
  }

  /** The number of the next field; 0 at the end. One that is not read must be skipped. */
  next(): number {
    if (this.#at >= this.#end) return 0;
    const tag = this.number();
    this.#wireType = tag & 7;
    return tag >>> 3;
  }

  /** What is in a nested message. */
  nested<T>(read: (reader: ProtoReader) => T): T {
    const length = this.number();
    const outerEnd = this.#end;
    this.#end = this.#at + length;
    this.#check(this.#end, outerEnd);
    const value = read(this);
    this.#at = this.#end;
    this.#end = outerEnd;
    return value;
  }

  text(): string {
    const from = this.#take(this.number());
    return this.#buffer.toString('utf8', from, this.#at);
  }

  /** Of its own: it does not keep the whole reply alive. */
  bytes(): Uint8Array {
    const from = this.#take(this.number());
    return from === this.#at ? EMPTY : Uint8Array.prototype.slice.call(this.#buffer, from, this.#at);
  }

  /** Up to 2^32. */
  number(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte();
      if (shift < 32) value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  }

  int64(): bigint {
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte();
      const bits = byte & 127;
      if (shift < 32) low |= bits << shift;
      if (shift === 28) high = bits >>> 4;
      else if (shift > 28 && shift < 64) high |= bits << (shift - 32);
      if (byte < 128) break;
    }
    halves.setInt32(0, high);
    halves.setInt32(4, low);
    return halves.getBigInt64(0);
  }

  skip(): void {
    if (this.#wireType === 0) this.int64();
    else if (this.#wireType === 2) this.#take(this.number());
    else if (this.#wireType === 1) this.#take(8);
    else if (this.#wireType === 5) this.#take(4);
    else throw new RangeError(`wire type ${this.#wireType} in a reply`);
  }

  #byte(): number {
    return this.#buffer[this.#take(1)] as number;
  }

  #take(bytes: number): number {
    const from = this.#at;
    this.#at += bytes;
    this.#check(this.#at, this.#end);
    return from;
  }

  #check(at: number, end: number): void {
    if (at > end) throw new RangeError('a reply that is cut off');
  }
}

const EMPTY = new Uint8Array(0);
