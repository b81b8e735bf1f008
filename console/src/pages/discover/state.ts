import type { Language, Question } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { parseJson } from '../../lib/json';
import { jsonErrorOffset } from '../../lib/json-position';
import type { TimeRange } from '../../lib/time-range';
import { type Filter, filtersDsl, readFilter } from './filters';

export interface ColumnState {
  name: string;
  /** Pixels; without a width the column shares the remaining space. */
  width?: number;
}

export interface SortState {
  field: string;
  desc: boolean;
}

/** State of Discover, stored in the URL. */
export interface DiscoverState {
  /** Index, alias, data stream or a list of them; empty for the server's default. */
  source: string;
  range: TimeRange;
  text: string;
  language: Language;
  filters: Filter[];
  /** Empty: a summary of the whole event. */
  columns: ColumnState[];
  /** Empty: newest first. */
  sort: SortState[];
  /** Breakdown field of the histogram: undefined for the server's default, null for none. */
  splitBy: string | null | undefined;
  /** Interval of the histogram; null for automatic. */
  interval: string | null;
  /** Id of the background run that is shown. */
  run: string | null;
  live: boolean;
  /** Auto-refresh interval in ms; 0 is off. */
  refreshMs: number;
  /** Id of the saved search that the page was opened from. */
  saved: string | null;
}

export const DEFAULT_RANGE: TimeRange = { from: 'now-24h', to: 'now' };
/** Minimum auto-refresh interval: the live tail covers shorter ones. */
export const REFRESH_MS_MIN = 1000;
export const COLUMN_PX_MIN = 60;
export const COLUMN_PX_MAX = 2000;

export const EMPTY_STATE: DiscoverState = {
  source: '',
  range: DEFAULT_RANGE,
  text: '',
  language: 'kql',
  filters: [],
  columns: [],
  sort: [],
  splitBy: undefined,
  interval: null,
  run: null,
  live: false,
  refreshMs: 0,
  saved: null,
};

const LANGUAGES: Language[] = ['kql', 'lucene', 'dsl'];

/** Escapes the characters of a name that have a meaning in lists. */
const escapeName = (name: string) => name.replace(/[%,:]/g, encodeURIComponent).replace(/^-/, '%2D');

function unescapeName(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const list = (text: string | null) => (text ? text.split(',').filter((part) => part !== '') : []);

/** Encodes the state as a query string; defaults are left out. */
export function encodeState(state: DiscoverState): string {
  const params = new URLSearchParams();
  if (state.source) params.set('i', state.source);
  const { from, to } = state.range;
  if (from !== DEFAULT_RANGE.from || to !== DEFAULT_RANGE.to) params.set('t', `${escapeName(from)},${escapeName(to)}`);
  if (state.text) params.set('q', state.text);
  if (state.language !== 'kql') params.set('l', state.language);
  if (state.filters.length > 0) params.set('f', JSON.stringify(state.filters));
  if (state.columns.length > 0) params.set('c', state.columns.map(({ name, width }) => escapeName(name) + (width ? `:${width}` : '')).join(','));
  if (state.sort.length > 0) params.set('s', state.sort.map(({ field, desc }) => (desc ? '-' : '') + escapeName(field)).join(','));
  if (state.splitBy !== undefined) params.set('h', state.splitBy ?? '');
  if (state.interval) params.set('g', state.interval);
  if (state.run) params.set('id', state.run);
  if (state.live) params.set('live', '1');
  if (state.refreshMs) params.set('auto', String(state.refreshMs));
  if (state.saved) params.set('saved', state.saved);
  return params.toString();
}

/** Decodes a query string, and lists its invalid parameters. */
export function decodeState(search: string): { state: DiscoverState; problems: string[] } {
  const params = new URLSearchParams(search);
  const problems: string[] = [];
  const language = params.get('l') ?? 'kql';
  if (!LANGUAGES.includes(language as Language)) problems.push(`unknown query language [${language}]`);
  const refreshMs = Number(params.get('auto') ?? 0);
  const split = params.get('h');
  const state: DiscoverState = {
    source: params.get('i') ?? '',
    range: readRange(params.get('t'), problems),
    text: params.get('q') ?? '',
    language: LANGUAGES.find((known) => known === language) ?? 'kql',
    filters: readFilters(params.get('f'), problems),
    columns: list(params.get('c')).map(readColumn),
    sort: list(params.get('s')).map((part) => ({ field: unescapeName(part.replace(/^-/, '')), desc: part.startsWith('-') })),
    splitBy: split === null ? undefined : split === '' ? null : split,
    interval: params.get('g') || null,
    run: params.get('id') || null,
    live: params.get('live') === '1',
    refreshMs: Number.isFinite(refreshMs) && refreshMs > 0 ? Math.max(REFRESH_MS_MIN, Math.round(refreshMs)) : 0,
    saved: params.get('saved') || null,
  };
  return { state, problems };
}

function readRange(text: string | null, problems: string[]): TimeRange {
  if (text === null) return DEFAULT_RANGE;
  const [from, to, ...more] = text.split(',').map(unescapeName);
  if (from && to && more.length === 0) return { from, to };
  problems.push(`invalid time range [${text}]`);
  return DEFAULT_RANGE;
}

function readColumn(part: string): ColumnState {
  const [name = '', width] = part.split(':');
  const px = Number(width);
  return { name: unescapeName(name), ...(px > 0 && { width: Math.min(COLUMN_PX_MAX, Math.max(COLUMN_PX_MIN, Math.round(px))) }) };
}

function readFilters(text: string | null, problems: string[]): Filter[] {
  if (!text) return [];
  let values: unknown;
  try {
    values = parseJson(text);
  } catch {
    // Reported below.
  }
  if (!Array.isArray(values)) {
    problems.push('invalid JSON in filters');
    return [];
  }
  return values.flatMap((value) => {
    const filter = readFilter(value);
    if (!filter) problems.push(`invalid filter ${JSON.stringify(value)}`);
    return filter ?? [];
  });
}

/** Parts of a request that are not in the URL. */
export interface QuestionContext {
  source: string;
  /** Null if events of the source have no time. */
  timeField: string | null;
  zone: string;
}

/** Part of the state that selects and sorts events. */
export type Asking = Pick<DiscoverState, 'range' | 'text' | 'language' | 'filters' | 'columns' | 'sort'>;

/** Builds the request. Throws if a Query DSL text is not valid JSON. */
export function toQuestion(state: Asking, { source, timeField, zone }: QuestionContext): Question {
  const query = toQuery(state);
  const filters = filtersDsl(state.filters);
  return {
    index: source,
    ...(timeField !== null && { time: { field: timeField, from: state.range.from, to: state.range.to, zone } }),
    ...(query && { query }),
    ...(filters.length > 0 && { filters }),
    ...(state.sort.length > 0 && { sort: toSort(state.sort, timeField) }),
    ...(state.columns.length > 0 && { columns: state.columns.map(({ name }) => name) }),
  };
}

function toQuery({ text, language }: Asking): Question['query'] | null {
  if (text.trim() === '') return null;
  return language === 'dsl' ? { language, dsl: parseDsl(text) } : { language, text };
}

/** Adds tiebreakers: time, then sequence number, so that paging is consistent. */
function toSort(sort: SortState[], timeField: string | null): object[] {
  const order = sort.map(({ field, desc }) => ({ [field]: { order: desc ? 'desc' : 'asc', unmapped_type: 'keyword' } }));
  const byTime = timeField !== null && !sort.some(({ field }) => field === timeField);
  return [...order, ...(byTime ? [{ [timeField]: { order: 'desc', unmapped_type: 'date' } }] : []), { _seq_no: 'desc' }];
}

/** Parses a Query DSL text. A syntax error contains its position. */
export function parseDsl(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const reason = (error as Error).message;
    const start = Math.min(jsonErrorOffset(text) ?? 0, Math.max(0, text.length - 1));
    throw new ApiError(reason, 400, 'json_syntax', { reason, position: { start, end: Math.min(text.length, start + 1) } });
  }
}
