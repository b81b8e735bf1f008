import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeState, EMPTY_STATE, encodeState, type Panel, rolesOf, webLogPanels } from './state';

const text = fc.string({ unit: 'binary', maxLength: 30 });
const end = fc.constantFrom('now', 'now-7d', 'now/d', '2026-11-22T10:00:00.000Z');
const panel: fc.Arbitrary<Panel> = fc.record(
  { title: text, kind: fc.constantFrom('time' as const, 'top' as const), field: text, search: fc.string({ unit: 'binary', minLength: 1 }), saved: fc.string({ minLength: 1 }) },
  { requiredKeys: ['title', 'kind', 'field'] },
);
const state = fc.record({
  source: text,
  range: fc.record({ from: end, to: end }),
  text,
  panels: fc.option(fc.array(panel, { maxLength: 5 })),
  refreshMs: fc.constantFrom(0, 1000, 60_000),
  saved: fc.option(fc.record({ id: fc.stringMatching(/^[A-Za-z0-9_-]{1,20}$/), version: fc.nat() })),
});

test('the URL round-trips the state', () => {
  fc.assert(fc.property(state, (state) => void expect(decodeState(encodeState(state))).toEqual({ state, problems: [] })));
  expect(encodeState(EMPTY_STATE)).toBe('');
});

test('invalid parameters are reported and never throw', () => {
  expect(decodeState('t=now').problems).toHaveLength(1);
  for (const p of ['[', '{}', '[1]', '[{"title":"a","kind":"pie","field":"b"}]', JSON.stringify(Array(21).fill({ title: '', kind: 'top', field: '' }))]) {
    const { state, problems } = decodeState(`p=${encodeURIComponent(p)}`);
    expect([state.panels, problems.length], p).toEqual([null, 1]);
  }
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (search) => void decodeState(search)));
});

test('fields are found by their usual names', () => {
  const ecs = rolesOf(new Set(['http.response.status_code', 'url.path', 'source.ip', 'user_agent.name', 'source.geo.country_iso_code', 'status']));
  expect(ecs).toEqual({ status: 'http.response.status_code', url: 'url.path', client: 'source.ip', agent: 'user_agent.name', country: 'source.geo.country_iso_code' });
  expect(rolesOf(new Set(['status', 'path.keyword', 'city']))).toEqual({ status: 'status', url: 'path.keyword', country: 'city' });
  const panels = webLogPanels(ecs);
  expect(panels.map(({ kind }) => kind)).toEqual(['time', 'top', 'top', 'top', 'top']);
  expect(new URLSearchParams(panels[1]?.search).get('q')).toBe('http.response.status_code: 404');
  expect(webLogPanels({}).every(({ field, search }) => field === '' && search === undefined)).toBe(true);
});
