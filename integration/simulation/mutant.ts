import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Mutation } from './mutations.ts';

const core = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'packages', 'core');

/**
 * A copy of core's sources with the edits of a mutation, where its imports resolve as those of the original.
 * Returns its folder. Each user (a test file) gets copies of its own, since test files run side by side.
 * @throws Error if the text of an edit is not there exactly once: then the mutation no longer says anything.
 */
export async function makeMutant(mutation: Mutation, user: string): Promise<string> {
  const files = await mutatedFiles(mutation);
  const folder = join(core, '.cache', 'mutants', user, mutation.name.replace(/[^a-z]+/gi, '-'));
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await cp(join(core, 'src'), folder, { recursive: true, filter: (path) => !path.endsWith('.test.ts') });
  for (const [file, text] of files) await writeFile(join(folder, file), text);
  return folder;
}

/** The files that a mutation changes, as it leaves them. @throws Error as {@link makeMutant} does */
export async function mutatedFiles({ name, edits }: Mutation): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  for (const { file, find, replace } of edits) {
    const text = files.get(file) ?? (await readFile(join(core, 'src', file), 'utf8'));
    const parts = text.split(find);
    if (parts.length !== 2) {
      throw new Error(
        `mutation "${name}": ${file} has its text ${parts.length - 1} times, not once:\n${find}`,
      );
    }
    files.set(file, parts.join(replace));
  }
  return files;
}
