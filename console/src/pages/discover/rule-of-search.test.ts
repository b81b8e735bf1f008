import { expect, test } from 'vitest';
import { queryOfUrl } from '../rules/form';
import { rulePathOfSearch } from './rule-of-search';
import { EMPTY_STATE, encodeState, type DiscoverState } from './state';

const queryOf = (patch: Partial<DiscoverState>) => {
  const path = rulePathOfSearch(encodeState({ ...EMPTY_STATE, ...patch }));
  return path === null ? null : queryOfUrl(new URLSearchParams(path.split('?')[1]));
};

test('a search without filters keeps its query and language', () => {
  expect(queryOf({ text: 'user.name: root' })).toEqual({ text: 'user.name: root', language: 'kuery' });
  expect(queryOf({ text: 'a:b', language: 'lucene' })).toEqual({ text: 'a:b', language: 'lucene' });
});

test('filters make it a query of the query DSL, without those that are disabled', () => {
  const made = queryOf({ text: 'a: b', filters: [{ op: 'is', field: 'c', value: 1, not: true }, { op: 'exists', field: 'd', off: true }] });
  expect(made?.language).toBe('dsl');
  expect(JSON.parse(made?.text ?? '')).toEqual({ bool: { filter: [{ kql: { query: 'a: b' } }, { bool: { must_not: [{ match_phrase: { c: 1 } }] } }] } });
});

test('a search for everything makes no rule, nor does one that is not valid', () => {
  expect(queryOf({})).toBeNull();
  expect(queryOf({ text: '{', language: 'dsl', filters: [{ op: 'exists', field: 'a' }] })).toBeNull();
});
