import { importRules, type ImportOptions, type ImportResult, type NotTakenRule, type RefusedRule } from '../../api/detection-rules';

/** Characters of one request: below the server's limit of a body, and few enough to show progress. */
const REQUEST_CHARS_MAX = 2 << 20;
const RULE_FILE = /\.(ya?ml|ndjson)$/i;
const NDJSON_FILE = /\.ndjson$/i;
const SEPARATOR = '\n---\n';

/** Whether a file has rules of Kibana or firn, not Sigma rules. */
export const isNdjson = ({ name }: { name: string }): boolean => NDJSON_FILE.test(name);

/** File with its text. */
export interface RuleText {
  name: string;
  text: string;
}

/** Text of one request, with the first line of each of its files. */
export interface RequestText {
  type: 'application/yaml' | 'application/x-ndjson';
  content: string;
  files: { name: string; line: number }[];
}

/**
 * Joins Sigma files to texts of at most `charsMax` characters; a longer file has a text of its own. So has each NDJSON file, whose
 * rules refer to lines further down.
 */
export function requestTexts(files: readonly RuleText[], charsMax = REQUEST_CHARS_MAX): RequestText[] {
  const texts: RequestText[] = [];
  let lines = 0;
  for (const { name, text } of files) {
    const last = texts.at(-1);
    const type = isNdjson({ name }) ? 'application/x-ndjson' : 'application/yaml';
    if (type === 'application/yaml' && last?.type === type && last.content.length + SEPARATOR.length + text.length <= charsMax) {
      last.files.push({ name, line: lines + 2 });
      last.content += SEPARATOR + text;
      lines += 1 + linesOf(text);
    } else {
      texts.push({ type, content: text, files: [{ name, line: 1 }] });
      lines = linesOf(text);
    }
  }
  return texts;
}

const linesOf = (text: string) => text.split('\n').length;

/** Returns where a line of a request is in its files: `tool.yml:7`. */
export function placeOf({ files }: Pick<RequestText, 'files'>, line: number): string {
  const file = files.findLast((file) => file.line <= line);
  return file ? `${file.name}:${line - file.line + 1}` : String(line);
}

/** Sum of the results of all requests, with the places in the files. */
export interface ImportSum {
  imported: string[];
  refused: (RefusedRule & { place: string })[];
  notTaken: (NotTakenRule & { place: string })[];
  /** Members that firn takes over in another way. */
  notes: NotTakenRule[];
}

function added(sum: ImportSum, text: RequestText, { imported, refused, not_taken, notes }: ImportResult): ImportSum {
  const placed = <T extends { line: number }>(part: T) => ({ ...part, place: placeOf(text, part.line) });
  return {
    imported: [...sum.imported, ...imported],
    refused: [...sum.refused, ...refused.map(placed)],
    notTaken: [...sum.notTaken, ...not_taken.map(placed)],
    notes: [...sum.notes, ...notes],
  };
}

/** Imports files in several requests, and reports the sum of the results after each. */
export async function importFiles(files: readonly File[], options: ImportOptions, onProgress: (sum: ImportSum, share: number) => void): Promise<ImportSum> {
  const texts = requestTexts(await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() }))));
  let sum: ImportSum = { imported: [], refused: [], notTaken: [], notes: [] };
  for (const [at, text] of texts.entries()) {
    sum = added(sum, text, await importRules(text, options));
    onProgress(sum, (at + 1) / texts.length);
  }
  return sum;
}

/** A member that firn did not take over, for the same reason in some rules. */
export interface NotTakenMember {
  member: string;
  reason: string;
  /** Names of the rules, or of what is no rule. */
  rules: string[];
}

/** Groups what was not taken by member and reason, that of most rules first. */
export function byMember(parts: readonly NotTakenRule[]): NotTakenMember[] {
  const groups = new Map<string, NotTakenMember>();
  for (const { id, name, members } of parts) {
    for (const { member, reason } of members) {
      const key = JSON.stringify([member, reason]);
      const group = groups.get(key) ?? { member, reason, rules: [] };
      group.rules.push(name || id);
      groups.set(key, group);
    }
  }
  return [...groups.values()].sort((one, other) => other.rules.length - one.rules.length);
}

/** Returns the dropped files with rules, with those in dropped folders. */
export async function droppedFiles(data: DataTransfer): Promise<File[]> {
  // Has to be read before the first wait: the list is empty afterwards.
  const entries = [...data.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  return (await Promise.all(entries.map(filesIn))).flat().filter(({ name }) => RULE_FILE.test(name));
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
