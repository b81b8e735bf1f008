import type { Question } from '../../api/discover';
import type { BucketKey, SearchResponse } from '../../api/search';
import type { Source } from '../../api/sources';
import { intervalFor } from '../../lib/chart';
import { isNumber } from '../../lib/json';
import { kqlAnd, queryDsl } from '../../lib/query-dsl';
import { resolveBound, type TimeRange } from '../../lib/time-range';
import { filtersDsl } from '../discover/filters';
import { decodeState, type DiscoverState, encodeState, parseDsl, toQuestion } from '../discover/state';
import type { Panel } from './state';

/** Number of top values. */
const VALUES = 10;
/** Maximum number of series: more colors are not distinguishable. */
const SERIES = 8;
/**
 * Values requested per interval: a value that is rare in one interval may be frequent overall, or belong to a frequent
 * class.
 */
const SPLITS = 100;
const BUCKETS_MAX = 120;
const FALLBACK_INTERVAL_MS = 3_600_000;

/** Search of a panel. */
export interface PanelSearch {
  index: string;
  body: object;
  /** Interval of a panel over time. */
  intervalMs: number;
  /** Conditions without the time. */
  filters: object[];
}

export interface PanelContext {
  source: string;
  timeField: string | null;
  range: TimeRange;
  /** KQL filter of all panels. */
  text: string;
  zone: string;
  nowMs: number;
}

/**
 * Returns the time field of a source, and whether some of it may be frozen. A pattern is unknown: it gets the default
 * time field, and may cover any frozen source.
 */
export function sourceFacts(source: string, sources: Source[]): { timeField: string | null; frozen: boolean } {
  const known = sources.find(({ name }) => name === source);
  const isFrozen = ({ tier }: Source) => tier.includes('frozen');
  return known ? { timeField: known.time_field, frozen: isFrozen(known) } : { timeField: '@timestamp', frozen: sources.some(isFrozen) };
}

/** Returns the source of a panel: from its search, else from the dashboard. */
export const sourceOf = (search: string, { source }: { source: string }): string => decodeState(search).state.source || source;

/**
 * Builds the search of a panel. `search` is the state of its saved search, if it has one. Throws if a Query DSL query
 * is not valid JSON.
 */
export function panelSearch(panel: Panel, search: string, { source, timeField, range, text, zone, nowMs }: PanelContext): PanelSearch {
  const { state } = decodeState(search);
  const own = state.text.trim() === '' ? null : state.language === 'dsl' ? (parseDsl(state.text) as object) : queryDsl(state.text, state.language, zone);
  const filters = [queryDsl(text, 'kql', zone), own, ...filtersDsl(state.filters)].filter((filter) => filter !== null);
  const time = timeField && { range: { [timeField]: { gte: range.from, lte: range.to, time_zone: zone } } };
  const bounds = [resolveBound(range.from, 'from', nowMs, zone), resolveBound(range.to, 'to', nowMs, zone)] as const;
  const intervalMs = bounds[0] !== null && bounds[1] !== null && bounds[1] > bounds[0] ? intervalFor(bounds[1] - bounds[0], BUCKETS_MAX) : FALLBACK_INTERVAL_MS;
  const values = { terms: { field: panel.field, size: panel.kind === 'time' ? SPLITS : VALUES } };
  const overTime = {
    date_histogram: {
      field: timeField ?? '@timestamp',
      fixed_interval: `${intervalMs}ms`,
      time_zone: zone,
      min_doc_count: 0,
      ...(bounds[0] !== null && bounds[1] !== null && { extended_bounds: { min: bounds[0], max: bounds[1] } }),
    },
    aggs: { values },
  };
  return {
    index: state.source || source,
    intervalMs,
    filters,
    body: {
      size: 0,
      track_total_hits: true,
      query: { bool: { filter: [...(time ? [time] : []), ...filters] } },
      aggs: panel.kind === 'time' ? { values: overTime } : { values, some: { filter: { exists: { field: panel.field } } } },
    },
  };
}

/** Builds the Discover request of a panel, for its cost estimate. */
export function questionOf(search: string, context: PanelContext): Question {
  const { range, source, timeField, zone } = context;
  const state = withShared(decodeState(search).state, context);
  return toQuestion({ ...state, range }, { source: state.source || source, timeField, zone });
}

/** Returns the Discover query string for the events of a panel, without the background run of its saved search. */
export function discoverAddress(search: string, context: PanelContext): string {
  const state = withShared(decodeState(search).state, context);
  return encodeState({ ...state, source: state.source || context.source, range: context.range, run: null, live: false });
}

/** Adds the shared query; next to a query in another language it becomes a filter. */
function withShared(state: DiscoverState, { text, zone }: PanelContext): DiscoverState {
  const dsl = queryDsl(text, 'kql', zone);
  if (!dsl) return state;
  if (state.text.trim() === '') return { ...state, language: 'kql', text };
  if (state.language === 'kql') return { ...state, text: kqlAnd(text, state.text) };
  return { ...state, filters: [...state.filters, { op: 'dsl', dsl }] };
}

export interface TopResult {
  kind: 'top';
  total: number;
  values: { key: BucketKey; text: string; count: number }[];
  /** Number of events with other values, and with none. */
  other: number;
  missing: number;
}

export interface TimeResult {
  kind: 'time';
  total: number;
  /** Milliseconds since the epoch. */
  times: number[];
  series: { label: string; values: number[] }[];
}

interface TimeBucket {
  key: number;
  doc_count: number;
  values?: { buckets?: { key: BucketKey; key_as_string?: string; doc_count: number }[]; sum_other_doc_count?: number };
}

/** Converts a response to chart data; null if it has no aggregations yet. */
export function readPanel(panel: Panel, response: SearchResponse): TopResult | TimeResult | null {
  const found = response.aggregations?.['values'];
  if (!found?.buckets) return null;
  const total = response.hits.total?.value ?? 0;
  if (panel.kind === 'time') return readTime(found.buckets as unknown as TimeBucket[], total);
  const values = found.buckets.map((bucket) => ({ key: askedAs(bucket), text: textOf(bucket), count: bucket.doc_count }));
  const missing = total - (response.aggregations?.['some']?.doc_count ?? total);
  return { kind: 'top', total, values, other: found.sum_other_doc_count ?? 0, missing };
}

const STATUS = /^[1-5]\d\d$/;
/** Series of all values that are not shown separately. */
export const OTHER = 'other';

/**
 * Converts buckets to series. HTTP statuses are grouped by class: five colors are readable, hundreds are not. Rare
 * other values are one series.
 */
function readTime(buckets: TimeBucket[], total: number): TimeResult {
  const seen = new Set(buckets.flatMap((bucket) => bucket.values?.buckets?.map(textOf) ?? []));
  const byClass = seen.size > 0 && [...seen].every((text) => STATUS.test(text));
  const nameOf = (text: string) => (byClass ? `${text[0] ?? ''}xx` : text);
  const rows = buckets.map((bucket) => {
    const row = new Map<string, number>();
    const values = bucket.values?.buckets ?? [];
    for (const value of values) row.set(nameOf(textOf(value)), (row.get(nameOf(textOf(value))) ?? 0) + value.doc_count);
    const rest = bucket.doc_count - values.reduce((sum, value) => sum + value.doc_count, 0);
    if (rest > 0) row.set(OTHER, (row.get(OTHER) ?? 0) + rest);
    return row;
  });
  const sums = new Map<string, number>();
  for (const row of rows) for (const [name, count] of row) sums.set(name, (sums.get(name) ?? 0) + count);
  const names = [...sums.keys()].sort((left, right) => rank(left) - rank(right) || (byClass ? left.localeCompare(right) : (sums.get(right) ?? 0) - (sums.get(left) ?? 0)));
  const told = names.filter((name) => name !== OTHER).slice(0, SERIES);
  const folded = names.filter((name) => !told.includes(name));
  const valuesOf = (of: string[]) => rows.map((row) => of.reduce((sum, name) => sum + (row.get(name) ?? 0), 0));
  return {
    kind: 'time',
    total,
    times: buckets.map(({ key }) => key),
    series: [...told.map((label) => ({ label, values: valuesOf([label]) })), ...(folded.length > 0 ? [{ label: OTHER, values: valuesOf(folded) }] : [])],
  };
}

/**
 * Returns the filter value of a bucket: the text for booleans and dates, whose numeric key their field does not accept.
 */
const askedAs = (bucket: { key: BucketKey; key_as_string?: string }) => (isNumber(bucket.key) && textOf(bucket) !== String(bucket.key) ? textOf(bucket) : bucket.key);
const textOf = ({ key, key_as_string: text }: { key: BucketKey; key_as_string?: string }) => text ?? String(key);
const rank = (name: string) => (name === OTHER ? 1 : 0);
