import { describe, expect, it } from 'vitest';
import { textOf } from './event-fields';
import { WholeNumber } from './json';
import { cutMarked, fragmentsOf, marksOf, piecesOf } from './marks';

/** Text of a value with brackets around its marks. */
function shown(value: unknown, fragments: string[]): string {
  const pieces = piecesOf({ text: textOf(value), marks: marksOf(value, fragments) });
  return pieces.map((piece, at) => (at % 2 === 1 ? `[${piece}]` : piece)).join('');
}

const m = (text: string) => `@firn-mark@${text}@/firn-mark@`;

describe('marks', () => {
  it('are at the matches of the query', () => {
    expect(shown('a b c', [`a ${m('b')} c`])).toBe('a [b] c');
    expect(shown('😀 <b>ä</b>', [`😀 <${m('b')}>${m('ä')}</${m('b')}>`])).toBe('😀 <[b]>[ä]</[b]>');
    expect(shown(200, [m('200')])).toBe('[200]');
    expect(shown(new WholeNumber('9007199254740993'), [m('9007199254740993')])).toBe('[9007199254740993]');
  });

  it('are correct for values with leading or trailing space, which the server trims', () => {
    expect(shown('\n  a b \t', [`a ${m('b')}`])).toBe('\n  a [b] \t');
    expect(shown('\u00a0a', [`\u00a0${m('a')}`])).toBe('\u00a0[a]');
    expect(shown('  ', [m('x')])).toBe('  ');
  });

  it('keep the case of the value if it was indexed in lower case', () => {
    expect(shown('Web-1', [m('web-1')])).toBe('[Web-1]');
    // Text whose lower-case form is longer gets no marks instead of wrong ones.
    expect(shown('İx', [`i̇${m('x')}`])).toBe('İx');
  });

  it('belong to the matching value of a multi-valued field', () => {
    expect(shown(['a', 'ab', 'b'], [m('a'), m('b')])).toBe('[a], ab, [b]');
    expect(shown([null, 'x', 7, 'x'], [m('x')])).toBe('null, [x], 7, [x]');
    expect(shown([{ a: 'x' }], [m('x')])).toBe('[{"a":"x"}]');
    expect(shown(undefined, [m('x')])).toBe('');
    expect(marksOf(Array.from({ length: 1e6 }, () => 'x'), [m('x')], 10)).toHaveLength(4);
  });

  it('in the event itself are ignored', () => {
    const own = `${m('not a mark')} here`;
    expect(shown(own, [own.replace('here', m('here'))])).toBe(own);
    expect(shown('@firn-mark@', ['@firn-mark@'])).toBe('@firn-mark@');
    expect(shown('other', [m('another')])).toBe('other');
  });

  it('of a long text cover only its beginning', () => {
    const text = `needle ${'x'.repeat(9000)}`;
    expect(shown(text, [`${m('needle')} ${'x'.repeat(3993)}`]).slice(0, 12)).toBe('[needle] xxx');
    const spaced = `needle${' '.repeat(9000)}end`;
    expect(shown(spaced, [m('needle')])).toBe(spaced.replace('needle', '[needle]'));
    // A short fragment is not the beginning of a longer text: it belongs to another value.
    expect(shown('needles', [m('needle')])).toBe('needles');
  });

  it('are found under the field name that the query used', () => {
    const highlight = { 'host.keyword': [m('a')], hostname: ['b'], message: [] };
    expect(fragmentsOf(highlight, 'host')).toEqual([m('a')]);
    expect([fragmentsOf(highlight, 'ho'), fragmentsOf(highlight, 'message'), fragmentsOf(undefined, 'host')]).toEqual([[], [], []]);
  });
});

describe('a truncated text', () => {
  it('shows its beginning, or the surroundings of the first mark', () => {
    const text = `${'a'.repeat(100)} needle ${'b'.repeat(100)}`;
    const plain = cutMarked({ text, marks: [] }, 20);
    expect(plain).toEqual({ text: `${'a'.repeat(20)}…`, marks: [] });
    const around = cutMarked({ text, marks: [[101, 107]] }, 60);
    expect(around.text).toBe(`…${'a'.repeat(39)} needle ${'b'.repeat(13)}…`);
    expect(piecesOf(around)[1]).toBe('needle');
    expect(cutMarked({ text: 'ab', marks: [[0, 2]] }, 2)).toEqual({ text: 'ab', marks: [[0, 2]] });
  });

  it('clips its last mark', () => {
    const cut = cutMarked({ text: 'abcdef', marks: [[1, 2], [3, 6], [6, 6]] }, 4);
    expect(piecesOf(cut)).toEqual(['a', 'b', 'c', 'd', '…']);
  });
});
