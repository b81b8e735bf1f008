import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../api/errors';
import { WholeNumber } from '../../lib/json';
import type { Filter } from './filters';
import { COLUMN_PX_MAX, COLUMN_PX_MIN, decodeState, DEFAULT_RANGE, type DiscoverState, EMPTY_STATE, encodeState, parseDsl, toQuestion } from './state';

/** Any text that a URL can hold, without unpaired surrogates. */
const text = fc.string({ unit: 'binary', maxLength: 30 });
const name = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 });
const large = fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }).map((value) => new WholeNumber(String(value)));
const scalar = fc.oneof(text, fc.integer(), fc.boolean(), large);
const flags = fc.record({ not: fc.constant(true as const), off: fc.constant(true as const), pin: fc.constant(true as const) }, { requiredKeys: [] });
const condition = fc.oneof(
  fc.record({ op: fc.constant('is' as const), field: name, value: scalar }),
  fc.record({ op: fc.constant('one_of' as const), field: name, values: fc.array(scalar, { minLength: 1, maxLength: 4 }) }),
  fc.record({ op: fc.constant('range' as const), field: name, gte: scalar, lte: scalar }),
  fc.record({ op: fc.constant('range' as const), field: name, lte: scalar }),
  fc.record({ op: fc.constant('exists' as const), field: name }),
  fc.record({ op: fc.constant('dsl' as const), dsl: fc.constant({ term: { a: { value: 'ä"' } } }) }),
);
const filter: fc.Arbitrary<Filter> = fc.tuple(condition, flags).map(([condition, flags]) => ({ ...condition, ...flags }));
const width = fc.option(fc.integer({ min: COLUMN_PX_MIN, max: COLUMN_PX_MAX }), { nil: undefined });
const column = fc.tuple(name, width).map(([name, width]) => ({ name, ...(width && { width }) }));
const state: fc.Arbitrary<DiscoverState> = fc.record({
  source: text,
  range: fc.record({ from: name, to: name }),
  text,
  language: fc.constantFrom('kql', 'lucene', 'dsl'),
  filters: fc.array(filter, { maxLength: 4 }),
  columns: fc.array(column, { maxLength: 4 }),
  sort: fc.array(fc.record({ field: name, desc: fc.boolean() }), { maxLength: 3 }),
  splitBy: fc.oneof(fc.constant(undefined), fc.constant(null), name),
  interval: fc.option(name),
  run: fc.option(name),
  live: fc.boolean(),
  refreshMs: fc.oneof(fc.constant(0), fc.integer({ min: 1000, max: 1e9 })),
  saved: fc.option(name),
});

describe('the URL', () => {
  it('round-trips the state for any names and texts', () => {
    fc.assert(
      fc.property(state, (state) => {
        expect(decodeState(encodeState(state))).toEqual({ state, problems: [] });
      }),
    );
  });

  it('is empty for the default state', () => {
    expect(encodeState(EMPTY_STATE)).toBe('');
    expect(decodeState('')).toEqual({ state: EMPTY_STATE, problems: [] });
  });

  it('can be written by hand', () => {
    const { state, problems } = decodeState('?i=events&t=now-7d,now&q=a:1&c=host,message:300&s=-bytes&h=&g=1h&f=[{"op":"is","field":"a","value":1}]');
    expect(problems).toEqual([]);
    expect(state).toMatchObject({ source: 'events', range: { from: 'now-7d', to: 'now' }, splitBy: null, interval: '1h' });
    expect(state.columns).toEqual([{ name: 'host' }, { name: 'message', width: 300 }]);
    expect(state.sort).toEqual([{ field: 'bytes', desc: true }]);
    expect(state.filters).toEqual([{ op: 'is', field: 'a', value: 1 }]);
  });

  it('reports every invalid parameter', () => {
    expect(decodeState('t=now').problems).toHaveLength(1);
    expect(decodeState('l=sql').problems).toHaveLength(1);
    expect(decodeState('f={}').problems).toHaveLength(1);
    expect(decodeState('f=[').problems).toHaveLength(1);
    const { state, problems } = decodeState('f=[{"op":"is"},{"op":"exists","field":"b"},{"op":"dsl","dsl":[]},{"op":"range","field":"a"},5]&auto=x&c=%');
    expect(problems).toHaveLength(4);
    expect(state.filters).toEqual([{ op: 'exists', field: 'b' }]);
    expect([state.refreshMs, state.range, state.columns]).toEqual([0, DEFAULT_RANGE, [{ name: '%' }]]);
  });

  it('accepts any text without throwing', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (search) => void decodeState(search)));
  });
});

describe('the request', () => {
  const context = { source: 'events', timeField: '@timestamp', zone: 'Asia/Kolkata' };

  it('follows the URL', () => {
    const { state } = decodeState('q=a:1&f=[{"op":"exists","field":"b"},{"op":"exists","field":"c","off":true}]&c=host&s=host');
    expect(toQuestion(state, context)).toEqual({
      index: 'events',
      time: { field: '@timestamp', from: 'now-24h', to: 'now', zone: 'Asia/Kolkata' },
      query: { language: 'kql', text: 'a:1' },
      filters: [{ exists: { field: 'b' } }],
      sort: [{ host: { order: 'asc', unmapped_type: 'keyword' } }, { '@timestamp': { order: 'desc', unmapped_type: 'date' } }, { _seq_no: 'desc' }],
      columns: ['host'],
    });
    expect(toQuestion(EMPTY_STATE, { ...context, timeField: null })).toEqual({ index: 'events' });
  });

  it('keeps all digits of numbers in the URL', () => {
    const digits = ['9007199254740993', '-9223372036854775808', '18446744073709551615'];
    for (const value of digits) {
      const filters = [`{"op":"is","field":"a","value":${value}}`, `{"op":"one_of","field":"a","values":[1,${value}]}`, `{"op":"range","field":"a","gte":${value}}`, `{"op":"dsl","dsl":{"term":{"a":${value}}}}`];
      const { state, problems } = decodeState(`f=[${filters.join(',')}]`);
      expect(problems).toEqual([]);
      const sent = JSON.stringify(toQuestion({ ...state, language: 'dsl', text: `{"term":{"a":${value}}}` }, context));
      expect(sent.split(value)).toHaveLength(6);
      expect(decodeURIComponent(encodeState(state)).split(value)).toHaveLength(5);
    }
  });

  it('sends JSON as JSON, and reports the position of a syntax error', () => {
    expect(toQuestion({ ...EMPTY_STATE, language: 'dsl', text: '{"match_all":{}}' }, context).query).toEqual({ language: 'dsl', dsl: { match_all: {} } });
    expect(() => parseDsl('{"a": x}')).toThrow(ApiError);
    try {
      parseDsl('{"a": x}');
    } catch (error) {
      expect((error as ApiError).position).toEqual({ start: 6, end: 7 });
    }
  });
});
