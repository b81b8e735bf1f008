/** JSON functions with access to the source text of numbers, which TypeScript's libraries do not declare yet. */
interface JsonWithSource {
  parse(text: string, reviver: (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  /** Serializes as `text`. Missing in browsers from before 2025. */
  rawJSON?(text: string): object;
}

const json = JSON as unknown as JsonWithSource;

/**
 * False in browsers that misprint raw JSON next to non-Latin-1 text. They send such a number as a string, which the
 * server accepts.
 */
const PRINTS_RAW = json.rawJSON !== undefined && JSON.stringify(['Ā', json.rawJSON('1')]) === '["Ā",1]';

/**
 * Integer that a `number` cannot hold exactly, such as a 64-bit id or counter. It serializes with all digits, in JSON and
 * in text; arithmetic uses the nearest `number`.
 */
export class WholeNumber {
  constructor(readonly digits: string) {}

  toString(): string {
    return this.digits;
  }

  toJSON(): unknown {
    return json.rawJSON && PRINTS_RAW ? json.rawJSON(this.digits) : this.digits;
  }

  [Symbol.toPrimitive](hint: string): string | number {
    return hint === 'string' ? this.digits : Number(this.digits);
  }
}

/** Field value that is neither an array nor an object. */
export type Scalar = string | number | boolean | WholeNumber;

export const isNumber = (value: unknown): value is number | WholeNumber => typeof value === 'number' || value instanceof WholeNumber;

export const isScalar = (value: unknown): value is Scalar => typeof value === 'string' || typeof value === 'boolean' || isNumber(value);

/** Matches if there may be a number of 16 digits or more: this check is cheap, a reviver for each number is not. */
const LONG_NUMBER = /(?:^|[[:,])\s*-?\d{16}/;
const WHOLE = /^-?\d+$/;

/** `JSON.parse` that returns integers beyond 2^53 as `WholeNumber`, if the browser supports it. */
export function parseJson(text: string): unknown {
  if (!json.rawJSON || !LONG_NUMBER.test(text)) return JSON.parse(text);
  return json.parse(text, (_, value, { source }) => (typeof value === 'number' ? exactly(value, source) : value));
}

/** Parses a typed integer; null for anything else, including fractions. */
export function wholeNumber(text: string): number | WholeNumber | null {
  return WHOLE.test(text) ? exactly(Number(text), text.replace(/^(-?)0+(?=\d)/, '$1')) : null;
}

function exactly(value: number, source = ''): number | WholeNumber {
  return !Number.isSafeInteger(value) && WHOLE.test(source) && json.rawJSON ? new WholeNumber(source) : value;
}
