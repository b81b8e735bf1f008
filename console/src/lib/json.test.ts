import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson, WholeNumber, wholeNumber } from './json';

/** Converts each `WholeNumber` to the `number` that JSON.parse would return. */
function asNumbers(value: unknown): unknown {
  if (value instanceof WholeNumber) return Number(value);
  if (Array.isArray(value)) return value.map(asNumbers);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, asNumbers(item)]));
}

const LARGE = ['9007199254740993', '-9223372036854775808', '18446744073709551615'];

describe('JSON with integers beyond 2^53', () => {
  it('keeps all digits when parsed and printed', () => {
    for (const digits of LARGE) {
      for (const text of [digits, `[${digits}]`, `{"a":${digits},"b":[1,${digits},"${digits}"]}`, `{"a":{"b": ${digits} }}`, `{"Ā":[${digits},"Ā"]}`]) {
        expect(JSON.stringify(parseJson(text))).toBe(text.replace(/ /g, ''));
      }
      expect(parseJson(digits)).toBeInstanceOf(WholeNumber);
      expect(String(parseJson(digits))).toBe(digits);
      expect(`${parseJson(digits) as WholeNumber}`).toBe(digits);
    }
  });

  it('parses numbers as `number` if that is exact', () => {
    const check = (text: string, value: unknown) => expect(parseJson(text)).toStrictEqual(value);
    check('9007199254740991', 9007199254740991);
    check('-9007199254740991', -9007199254740991);
    check('[1234567890123456.5]', [1234567890123456.5]);
    check('{"a":1234567890123456e3}', { a: 1234567890123456e3 });
    check('{"a":"9007199254740993"}', { a: '9007199254740993' });
    check('["x:9007199254740993", 1]', ['x:9007199254740993', 1]);
  });

  it('parses everything else like JSON.parse', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // The long number forces the path with a reviver.
        const text = JSON.stringify([value, 1]).replace(/1\]$/, '9007199254740993]');
        const [read] = parseJson(text) as unknown[];
        expect(asNumbers(read)).toStrictEqual((JSON.parse(text) as unknown[])[0]);
      }),
    );
  });

  it('fails for invalid JSON', () => {
    expect(() => parseJson('{"a":9007199254740993')).toThrow(SyntaxError);
  });

  it('converts to the nearest number in arithmetic', () => {
    const large = new WholeNumber('9007199254740993');
    expect(Number(large)).toBe(9007199254740992);
    expect((large as unknown as number) / 2).toBe(4503599627370496);
  });
});

describe('a typed integer', () => {
  it('is distinguished from other text', () => {
    for (const digits of LARGE) expect(JSON.stringify(wholeNumber(digits))).toBe(digits);
    expect(JSON.stringify(wholeNumber('-0009223372036854775808'))).toBe('-9223372036854775808');
    expect([wholeNumber('12'), wholeNumber('-0012')]).toEqual([12, -12]);
    for (const text of ['', ' ', '-', '1.5', '1e3', '0x10', 'a1']) expect(wholeNumber(text)).toBeNull();
  });
});
