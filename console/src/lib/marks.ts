import { textOf } from './event-fields';
import { isScalar } from './json';

/** Around what the query found, as the server writes it. */
const MARKS = /@firn-mark@([\s\S]*?)@\/firn-mark@/g;
/** Of values so long in all the server tells the beginning. */
const WHOLE_CHARS_MAX = 4000;
/** What is left to be read before the first mark of a text that is cut to show it. */
const LEAD_CHARS = 40;

/** What the query found in a text: from a character to before another. */
export type Mark = readonly [from: number, to: number];

/** A text as it is shown, and where the marks stand in it: in order, and apart. */
export interface Marked {
  text: string;
  marks: readonly Mark[];
}

type Highlight = Record<string, string[]>;

/**
 * What the query found in the values of a field. One that is indexed in several ways (`host`, `host.keyword`) has it under the name
 * that was asked for.
 */
export function fragmentsOf(highlight: Highlight | undefined, name: string): readonly string[] {
  if (!highlight) return [];
  const own = highlight[name];
  if (own) return own;
  const other = Object.keys(highlight).find((key) => key.startsWith(`${name}.`));
  return (other && highlight[other]) || [];
}

/**
 * Where in `textOf(value)` is what was found. The value itself is shown, never what the server made of it: a fragment that is
 * not of this value, or one whose marks are part of the event, marks nothing.
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
 * Where a fragment begins in the text that it is of: the server leaves out space at both ends, and what follows in a long text. Null:
 * it is of another one.
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

/** Some fields are indexed, and told, in lower case. */
const isSame = (text: string, fragment: string) => text === fragment || (text.length === fragment.length && text.toLowerCase() === fragment);

/** So much of a text that it fits: its beginning, or, if the first mark is further on, what is around that. */
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

/** Pieces of a text, in turn unmarked and marked: the first is unmarked and may be empty. */
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
