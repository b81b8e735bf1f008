/** JSON's functions that keep the text of a number: TypeScript's libraries do not know them yet. */
interface JsonWithSource {
  parse(text: string, reviver: (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  /** Prints as `text`. Missing in browsers from before 2025. */
  rawJSON?(text: string): object;
}

const json = JSON as unknown as JsonWithSource;

/** Some browsers misprint raw JSON beside text that is not Latin-1. There such a number is sent as text, which the server reads as the same one. */
const PRINTS_RAW = json.rawJSON !== undefined && JSON.stringify(['Ā', json.rawJSON('1')]) === '["Ā",1]';

/**
 * A whole number that a `number` cannot hold, digit by digit: ids and counters of 64 bits are such. It prints as the same
 * digits, in JSON as in text; where it is calculated with, it is the nearest `number`.
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

/** A value of a field that is neither a list nor an object. */
export type Scalar = string | number | boolean | WholeNumber;

export const isNumber = (value: unknown): value is number | WholeNumber => typeof value === 'number' || value instanceof WholeNumber;

export const isScalar = (value: unknown): value is Scalar => typeof value === 'string' || typeof value === 'boolean' || isNumber(value);

/** Whether there may be a number of so many digits: to look is cheap, to ask for the text of each number is not. */
const LONG_NUMBER = /(?:^|[[:,])\s*-?\d{16}/;
const WHOLE = /^-?\d+$/;

/** As `JSON.parse`, but whole numbers beyond 2^53 keep their digits as a `WholeNumber`, wherever the browser tells them. */
export function parseJson(text: string): unknown {
  if (!json.rawJSON || !LONG_NUMBER.test(text)) return JSON.parse(text);
  return json.parse(text, (_, value, { source }) => (typeof value === 'number' ? exactly(value, source) : value));
}

/** What somebody typed as a number: null if it is none, or only one with fractions would be it. */
export function wholeNumber(text: string): number | WholeNumber | null {
  return WHOLE.test(text) ? exactly(Number(text), text.replace(/^(-?)0+(?=\d)/, '$1')) : null;
}

function exactly(value: number, source = ''): number | WholeNumber {
  return !Number.isSafeInteger(value) && WHOLE.test(source) && json.rawJSON ? new WholeNumber(source) : value;
}
