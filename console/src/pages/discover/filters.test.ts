import { describe, expect, it } from 'vitest';
import { WholeNumber } from '../../lib/json';
import { describeCondition, exactCondition, type Filter, filterDsl, filtersDsl, toggled, withCondition } from './filters';

describe('filters as Query DSL', () => {
  const check = (filter: Filter, dsl: object, words: string) => {
    expect(filterDsl(filter)).toEqual(dsl);
    expect(describeCondition(filter)).toBe(words);
  };

  it('translate each condition', () => {
    check({ op: 'is', field: 'a', value: 'x y' }, { match_phrase: { a: 'x y' } }, 'is x y');
    check({ op: 'is', field: 'a', value: '' }, { match_phrase: { a: '' } }, 'is (empty)');
    check({ op: 'exists', field: 'a', not: true }, { bool: { must_not: [{ exists: { field: 'a' } }] } }, 'does not exist');
    check(
      { op: 'one_of', field: 'a', values: [1, 2] },
      { bool: { should: [{ match_phrase: { a: 1 } }, { match_phrase: { a: 2 } }], minimum_should_match: 1 } },
      'is one of 1, 2',
    );
    check({ op: 'range', field: 'a', gte: 0 }, { range: { a: { gte: 0 } } }, 'is at least 0');
    check({ op: 'range', field: 'a', lte: 9, not: true }, { bool: { must_not: [{ range: { a: { lte: 9 } } }] } }, 'is not at most 9');
    check({ op: 'range', field: 'a', gte: 1, lte: 2 }, { range: { a: { gte: 1, lte: 2 } } }, 'is between 1 and 2');
    check({ op: 'dsl', dsl: { ids: { values: ['1'] } }, not: true }, { bool: { must_not: [{ ids: { values: ['1'] } }] } }, 'NOT {"ids":{"values":["1"]}}');
  });

  it('leave out disabled filters', () => {
    expect(filtersDsl([{ op: 'exists', field: 'a', off: true }, { op: 'exists', field: 'b' }])).toEqual([{ exists: { field: 'b' } }]);
  });
});

describe('a value that was clicked', () => {
  const fields = new Map(Object.entries({ path: { type: 'text' }, 'path.keyword': { type: 'keyword' }, message: { type: 'text' }, host: { type: 'keyword' } }));
  const exact = (field: string, value: string | number) => exactCondition({ op: 'is', field, value }, fields);

  it('is matched as a whole, also without words', () => {
    expect(exact('path', '/')).toEqual({ op: 'is', field: 'path.keyword', value: '/' });
    expect(exact('path', '')).toEqual({ op: 'is', field: 'path.keyword', value: '' });
    expect(exact('host', '🔥')).toEqual({ op: 'is', field: 'host', value: '🔥' });
    expect(exact('message', 'a b')).toEqual({ op: 'is', field: 'message', value: 'a b' });
    expect(exact('unknown', '-')).toEqual({ op: 'is', field: 'unknown', value: '-' });
    expect(exact('path', 5)).toEqual({ op: 'is', field: 'path', value: 5 });
  });

  it('is matched by its words if it is too long for the keyword', () => {
    expect(exact('path', 'word '.repeat(52))).toMatchObject({ field: 'path' });
  });

  it('has no filter if none could match it', () => {
    expect(exact('message', '🔥')).toContain('no searchable words');
    expect(exact('host', 'x'.repeat(5000))).toContain('too long');
  });
});

describe('adding a filter', () => {
  it('negates an equal filter instead of contradicting it, and keeps it pinned', () => {
    const filters: Filter[] = [{ op: 'is', field: 'a', value: 1, pin: true, off: true }];
    expect(withCondition(filters, { op: 'is', field: 'a', value: 1 }, true)).toEqual([{ op: 'is', field: 'a', value: 1, not: true, pin: true }]);
    expect(withCondition(filters, { op: 'is', field: 'a', value: 2 }, false)).toHaveLength(2);
    const large = (digits: string): Filter => ({ op: 'is', field: 'a', value: new WholeNumber(digits) });
    expect(withCondition([large('9007199254740993')], large('9007199254740992'), false)).toHaveLength(2);
    expect(withCondition([large('9007199254740993')], large('9007199254740993'), true)).toHaveLength(1);
  });

  it('toggles flags', () => {
    const filters: Filter[] = [{ op: 'exists', field: 'a' }];
    expect(toggled(filters, 0, 'off')).toEqual([{ op: 'exists', field: 'a', off: true }]);
    expect(toggled(toggled(filters, 0, 'off'), 0, 'off')).toEqual(filters);
  });
});
