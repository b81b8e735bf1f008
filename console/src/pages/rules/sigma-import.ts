import { importRules, type ImportOptions, type ImportResult } from '../../api/detection-rules';

/** Characters of one request: below the server's limit of a body, and few enough to show progress. */
const REQUEST_CHARS_MAX = 2 << 20;
const SIGMA_FILE = /\.ya?ml$/i;

/** Joins files to texts of at most `charsMax` characters; a longer file has a text of its own. */
export function joined(files: readonly string[], charsMax = REQUEST_CHARS_MAX): string[] {
  const texts: string[] = [];
  for (const file of files) {
    const last = texts.at(-1);
    if (last !== undefined && last.length + SEPARATOR.length + file.length <= charsMax) texts[texts.length - 1] = last + SEPARATOR + file;
    else texts.push(file);
  }
  return texts;
}

const SEPARATOR = '\n---\n';

/** Imports files in several requests, and reports the sum of the results after each. */
export async function importFiles(files: readonly File[], options: ImportOptions, onProgress: (result: ImportResult, share: number) => void): Promise<ImportResult> {
  const texts = joined(await Promise.all(files.map((file) => file.text())));
  const sum: ImportResult = { imported: [], refused: [] };
  for (const [at, text] of texts.entries()) {
    const { imported, refused } = await importRules(text, options);
    sum.imported.push(...imported);
    sum.refused.push(...refused);
    onProgress({ imported: [...sum.imported], refused: [...sum.refused] }, (at + 1) / texts.length);
  }
  return sum;
}

/** Returns the dropped Sigma files, with those in dropped folders. */
export async function droppedFiles(data: DataTransfer): Promise<File[]> {
  // Has to be read before the first wait: the list is empty afterwards.
  const entries = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return (await Promise.all(entries.map(filesIn))).flat().filter(({ name }) => SIGMA_FILE.test(name));
}

async function filesIn(entry: FileSystemEntry): Promise<File[]> {
  if (entry.isFile) return [await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed))];
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const files: File[] = [];
  for (;;) {
    // A reader returns a part of the folder at a time.
    const part = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (part.length === 0) return files;
    files.push(...(await Promise.all(part.map(filesIn))).flat());
  }
}
