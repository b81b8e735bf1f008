import { describe, expect, it } from 'vitest';
import { WholeNumber } from './json';
import { dateMs, flatten, textOf, valueAt } from './event-fields';

describe('the fields of an event', () => {
  it('are its leaves with full paths', () => {
    const source = { a: { b: 1, c: { d: 'x' } }, 'e.f': [1, 2], g: [{ h: 1 }], i: {}, j: null };
    expect(flatten(source)).toEqual([
      { name: 'a.b', value: 1 },
      { name: 'a.c.d', value: 'x' },
      { name: 'e.f', value: [1, 2] },
      { name: 'g', value: [{ h: 1 }] },
      { name: 'i', value: {} },
      { name: 'j', value: null },
    ]);
  });

  it('are found for any combination of dotted keys and objects', () => {
    const check = (source: unknown, value: unknown) => expect(valueAt(source, 'a.b.c')).toEqual(value);
    check({ a: { b: { c: 1 } } }, 1);
    check({ 'a.b': { c: 1 } }, 1);
    check({ a: { 'b.c': 1 } }, 1);
    check({ 'a.b.c': 1 }, 1);
    check({ 'a': { b: 5 }, 'a.b': { c: 1 } }, 1);
    check({ a: [{ b: { c: 1 } }, { b: { c: [2, 3] } }, {}] }, [1, 2, 3]);
    check({ a: { b: 1 } }, undefined);
    expect(valueAt({}, 'constructor')).toBeUndefined();
    expect(valueAt({}, '__proto__.x')).toBeUndefined();
  });
});

describe('the text of a value', () => {
  it('is one line, truncated if too long', () => {
    expect(textOf(['a', 1, true, null])).toBe('a, 1, true, null');
    expect(textOf([{ a: 1 }])).toBe('[{"a":1}]');
    expect(textOf('x'.repeat(1_000_000), 5)).toBe('xxxxx…');
    expect(textOf(Array.from({ length: 1_000_000 }, () => 'ab'), 4)).toBe('ab, …');
    expect(textOf('<b>ä</b>')).toBe('<b>ä</b>');
  });

  it('has all digits of a number', () => {
    const large = new WholeNumber('9007199254740993');
    expect(flatten({ a: { b: large } })).toEqual([{ name: 'a.b', value: large }]);
    expect(valueAt({ a: { b: large } }, 'a.b')).toBe(large);
    expect(valueAt({ a: large }, 'a.digits')).toBeUndefined();
    expect([textOf(large), textOf([1, large]), textOf({ a: large })]).toEqual(['9007199254740993', '1, 9007199254740993', '{"a":9007199254740993}']);
    expect(dateMs(large)).toBeNull();
  });
});

describe('dates', () => {
  it('are read as Elasticsearch reads them', () => {
    expect(dateMs('2026-11-22T10:00:00+05:30')).toBe(Date.UTC(2026, 10, 22, 4, 30));
    expect(dateMs('2026-11-22T10:00:00')).toBe(Date.UTC(2026, 10, 22, 10));
    expect(dateMs('2026-11-22 10:00:00.5')).toBe(Date.UTC(2026, 10, 22, 10, 0, 0, 500));
    expect(dateMs('2026-11-22')).toBe(Date.UTC(2026, 10, 22));
    expect(dateMs(1000)).toBe(1000);
    // The last values are the sort values of events without a time.
    for (const value of ['22.11.2026', 'now', {}, null, -(2 ** 63), 2 ** 63, Number.NaN]) expect(dateMs(value)).toBeNull();
  });
});
