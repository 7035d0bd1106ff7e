// The objects of the strict server: what was answered is in the file system, if there is a folder for it.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface StoredObject {
  readonly bytes: Buffer;
  readonly contentType: string;
  /** With its quotes. The MD5 of the content, as S3 has it for plain objects: equal contents, equal ETags. */
  readonly etag: string;
  readonly modified: Date;
}

export class Objects {
  readonly #objects = new Map<string, StoredObject>();
  readonly #folder: string | undefined;

  constructor(folder?: string) {
    this.#folder = folder;
    this.load();
  }

  get paths(): string[] {
    return [...this.#objects.keys()];
  }

  get(path: string): StoredObject | undefined {
    return this.#objects.get(path);
  }

  put(path: string, bytes: Buffer, contentType: string, modified = new Date()): StoredObject {
    const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
    const object = { bytes, contentType, etag, modified };
    if (this.#folder !== undefined) {
      const head = JSON.stringify({ path, contentType, modified });
      const file = this.#fileOf(path);
      writeFileSync(`${file}.new`, Buffer.concat([Buffer.from(`${head}\n`), bytes]));
      renameSync(`${file}.new`, file);
    }
    this.#objects.set(path, object);
    return object;
  }

  delete(path: string): void {
    if (this.#folder !== undefined) rmSync(this.#fileOf(path), { force: true });
    this.#objects.delete(path);
  }

  /** Forgets everything and reads the folder again. */
  load(): void {
    if (this.#folder === undefined) return;
    this.#objects.clear();
    mkdirSync(this.#folder, { recursive: true });
    for (const name of readdirSync(this.#folder)) {
      if (name.endsWith('.new')) continue;
      const file = readFileSync(join(this.#folder, name));
      const end = file.indexOf('\n');
      const { path, contentType, modified } = JSON.parse(file.subarray(0, end).toString());
      const bytes = file.subarray(end + 1);
      const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
      this.#objects.set(path, { bytes, contentType, etag, modified: new Date(modified) });
    }
  }

  copyTo(folder: string): void {
    cpSync(this.#required(), folder, { recursive: true });
  }

  copyFrom(folder: string): void {
    rmSync(this.#required(), { recursive: true, force: true });
    cpSync(folder, this.#required(), { recursive: true });
    this.load();
  }

  #required(): string {
    if (this.#folder === undefined) throw new Error('this server keeps its objects in memory only');
    return this.#folder;
  }

  #fileOf(path: string): string {
    return join(this.#required(), createHash('sha256').update(path).digest('hex'));
  }
}
