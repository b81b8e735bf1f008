import type { Language, Question } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { parseJson } from '../../lib/json';
import { jsonErrorOffset } from '../../lib/json-position';
import type { TimeRange } from '../../lib/time-range';
import { type Filter, filtersDsl, readFilter } from './filters';

export interface ColumnState {
  name: string;
  /** Pixels; without one the column shares what is left. */
  width?: number;
}

export interface SortState {
  field: string;
  desc: boolean;
}

/** Everything that Discover shows, as its address says it. */
export interface DiscoverState {
  /** Index, alias, data stream or a list of them; empty: the server's default. */
  source: string;
  range: TimeRange;
  text: string;
  language: Language;
  filters: Filter[];
  /** None: a summary of the whole event. */
  columns: ColumnState[];
  /** None: newest first. */
  sort: SortState[];
  /** What the histogram is split by: undefined leaves it to the server, null is nothing. */
  splitBy: string | null | undefined;
  /** Width of its buckets; null fits the screen. */
  interval: string | null;
  /** A run in the background, whose answer is shown. */
  run: string | null;
  live: boolean;
  /** Asked again every so many ms; 0: never. */
  refreshMs: number;
  /** The saved search that this began with. */
  saved: string | null;
}

export const DEFAULT_RANGE: TimeRange = { from: 'now-24h', to: 'now' };
/** Shorter than that is what the live tail is for. */
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

/** Names in lists: what has a meaning in the list is written as in addresses. */
const escapeName = (name: string) => name.replace(/[%,:]/g, encodeURIComponent).replace(/^-/, '%2D');

function unescapeName(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const list = (text: string | null) => (text ? text.split(',').filter((part) => part !== '') : []);

/** The address's query string; what is as always is left out. */
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

/** What an address says, and what of it could not be read: nothing is left out in silence. */
export function decodeState(search: string): { state: DiscoverState; problems: string[] } {
  const params = new URLSearchParams(search);
  const problems: string[] = [];
  const language = params.get('l') ?? 'kql';
  if (!LANGUAGES.includes(language as Language)) problems.push(`there is no query language [${language}]`);
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
  problems.push(`there is no time range [${text}]`);
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
    // Said below.
  }
  if (!Array.isArray(values)) {
    problems.push('the filters cannot be read');
    return [];
  }
  return values.flatMap((value) => {
    const filter = readFilter(value);
    if (!filter) problems.push(`there is no filter ${JSON.stringify(value)}`);
    return filter ?? [];
  });
}

/** Where parts of a question come from that the address does not say. */
export interface QuestionContext {
  source: string;
  /** Null: events of the source have no time. */
  timeField: string | null;
  zone: string;
}

/** What of the state says which events, and in which order. */
export type Asking = Pick<DiscoverState, 'range' | 'text' | 'language' | 'filters' | 'columns' | 'sort'>;

/** What is asked of the server. Throws where a query in JSON is none. */
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

/** Ties are broken by time and then by arrival, so that the next page begins where one ends. */
function toSort(sort: SortState[], timeField: string | null): object[] {
  const order = sort.map(({ field, desc }) => ({ [field]: { order: desc ? 'desc' : 'asc', unmapped_type: 'keyword' } }));
  const byTime = timeField !== null && !sort.some(({ field }) => field === timeField);
  return [...order, ...(byTime ? [{ [timeField]: { order: 'desc', unmapped_type: 'date' } }] : []), { _seq_no: 'desc' }];
}

/** The JSON of a query; an error with its place in the text if it is none. */
export function parseDsl(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const reason = (error as Error).message;
    const start = Math.min(jsonErrorOffset(text) ?? 0, Math.max(0, text.length - 1));
    throw new ApiError(reason, 400, 'json_syntax', { reason, position: { start, end: Math.min(text.length, start + 1) } });
  }
}
