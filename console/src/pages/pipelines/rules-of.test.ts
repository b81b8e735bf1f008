import { expect, test } from 'vitest';
import { rulesOf } from './rules-of';

const stats = (evaluated_by: string[], unmapped_in: string[] = []) => ({ enabled: true, evaluated_by, unmapped_in, error: null });
const summary = (name: string) => ({ type: 'query' as const, name, severity: 'low' as const, enabled: true, tags: [] });

test('a pipeline has the rules that it evaluates, by name', () => {
  const all = { a: stats(['web', 'dns']), b: stats(['web']), c: stats(['dns'], ['web']), d: stats([]) };
  expect(rulesOf('web', all, { a: summary('Zone transfer'), b: summary('Port scan') })).toEqual({
    evaluated: [
      { id: 'b', name: 'Port scan' },
      { id: 'a', name: 'Zone transfer' },
    ],
    unmapped: 1,
  });
  expect(rulesOf('other', all, {})).toEqual({ evaluated: [], unmapped: 0 });
  // A rule that was created since the list was fetched.
  expect(rulesOf('dns', { c: stats(['dns']) }, {}).evaluated).toEqual([{ id: 'c', name: 'c' }]);
});
