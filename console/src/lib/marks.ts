import { textOf } from './event-fields';
import { isScalar } from './json';

/** Highlight tags that the server puts around matches. */
const MARKS = /@firn-mark@([\s\S]*?)@\/firn-mark@/g;
/** The server returns only the beginning of longer values. */
const WHOLE_CHARS_MAX = 4000;
/** Characters of context before the first mark of a truncated text. */
const LEAD_CHARS = 40;

/** Match in a text: half-open range of characters. */
export type Mark = readonly [from: number, to: number];

/** Displayed text with its marks, sorted and disjoint. */
export interface Marked {
  text: string;
  marks: readonly Mark[];
}

type Highlight = Record<string, string[]>;

/**
 * Returns the highlight fragments of a field. The fragments of a multi-field (`host`, `host.keyword`) are under the name
 * that the query used.
 */
export function fragmentsOf(highlight: Highlight | undefined, name: string): readonly string[] {
  if (!highlight) return [];
  const own = highlight[name];
  if (own) return own;
  const other = Object.keys(highlight).find((key) => key.startsWith(`${name}.`));
  return (other && highlight[other]) || [];
}

/**
 * Returns the marks in `textOf(value)`. The console shows the value itself, never the server's fragment: a fragment of another
 * value, or one whose tags are part of the event, yields no marks.
 */
export function marksOf(value: unknown, fragments: readonly string[], charsMax = Number.POSITIVE_INFINITY): Mark[] {
  if (fragments.length === 0) return [];
  if (isScalar(value)) return marksIn(textOf(value), fragments);
  if (!Array.isArray(value) || !value.every((item) => item === null || isScalar(item))) return [];
  const marks: Mark[] = [];
  let at = 0;
  for (const item of value as unknown[]) {
    if (at > charsMax) break;
    const text = textOf(item);
    const start = at;
    marks.push(...marksIn(text, fragments).map(([from, to]): Mark => [start + from, start + to]));
    at += text.length + ', '.length;
  }
  return marks;
}

function marksIn(text: string, fragments: readonly string[]): Mark[] {
  for (const fragment of fragments) {
    const pieces = fragment.split(MARKS);
    const start = placeOf(pieces.join(''), text);
    if (start === null) continue;
    let at = start;
    return pieces.flatMap((piece, number): Mark[] => {
      const from = at;
      at += piece.length;
      return number % 2 === 1 && at > from ? [[from, at]] : [];
    });
  }
  return [];
}

/**
 * Returns the start of a fragment in its text; null if the fragment belongs to another text. The server trims space at both
 * ends, and the end of a long text.
 */
function placeOf(fragment: string, text: string): number | null {
  for (const start of [0, text.length - text.trimStart().length]) {
    const end = start + fragment.length;
    const rest = text.slice(end).trimStart();
    const ends = rest === '' || text.length - rest.length >= WHOLE_CHARS_MAX;
    if (ends && isSame(text.slice(start, end), fragment)) return start;
  }
  return null;
}

/** Some fields are indexed and highlighted in lower case. */
const isSame = (text: string, fragment: string) => text === fragment || (text.length === fragment.length && text.toLowerCase() === fragment);

/** Truncates a text: keeps its beginning, or the surroundings of the first mark if that is further on. */
export function cutMarked({ text, marks }: Marked, charsMax: number): Marked {
  if (text.length <= charsMax) return { text, marks };
  const [first] = marks;
  const from = first && first[1] > charsMax ? Math.max(0, first[0] - LEAD_CHARS) : 0;
  const to = from + charsMax;
  const before = from > 0 ? '…' : '';
  const shift = before.length - from;
  const kept = marks.filter(([start]) => start < to).map(([start, end]): Mark => [start + shift, Math.min(end, to) + shift]);
  return { text: `${before}${text.slice(from, to)}${to < text.length ? '…' : ''}`, marks: kept };
}

/** Splits a text into alternating unmarked and marked pieces; the first is unmarked and may be empty. */
export function piecesOf({ text, marks }: Marked): string[] {
  const pieces: string[] = [];
  let at = 0;
  for (const [from, to] of marks) {
    if (from >= text.length) break;
    pieces.push(text.slice(at, from), text.slice(from, to));
    at = to;
  }
  return [...pieces, text.slice(at)];
}
