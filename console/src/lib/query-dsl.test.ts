import { expect, test } from 'vitest';
import { WholeNumber } from './json';
import { kqlAnd, kqlIs, queryDsl } from './query-dsl';

test('a typed query becomes Query DSL of its language', () => {
  expect(queryDsl(' ', 'kql', 'UTC')).toBeNull();
  expect(queryDsl('a: 1', 'kql', 'Asia/Kolkata')).toEqual({ kql: { query: 'a: 1', time_zone: 'Asia/Kolkata' } });
  expect(queryDsl('a:1', 'lucene', 'UTC')).toEqual({ query_string: { query: 'a:1', analyze_wildcard: true, time_zone: 'UTC' } });
});

test('values and field names are escaped', () => {
  expect(kqlIs('url.path', '/a "b" \\')).toBe('url.path: "/a \\"b\\" \\\\"');
  expect(kqlIs('status', 404)).toBe('status: 404');
  expect(kqlIs('id', new WholeNumber('9007199254740993'))).toBe('id: 9007199254740993');
  expect(kqlIs('a b', 'x')).toBe('a\\ b: "x"');
  expect(kqlIs('or', 'x')).toBe('\\or: "x"');
});

test('an additional condition keeps the meaning of the query', () => {
  expect(kqlAnd('', 'a: 1')).toBe('a: 1');
  expect(kqlAnd('b: 2', 'a: 1')).toBe('b: 2 and a: 1');
  expect(kqlAnd('a: 1', ' ')).toBe('a: 1');
  expect(kqlAnd('b: 2 or c: 3', 'a: 1')).toBe('(b: 2 or c: 3) and a: 1');
  expect(kqlAnd('a: 1', 'b: 2 or c: 3')).toBe('a: 1 and (b: 2 or c: 3)');
});
