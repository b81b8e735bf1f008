import type { ShardFailure } from '../components/Partial';
import type { Scalar } from '../lib/json';
import { type ErrorObject, errorFromObject, unreachable } from './errors';
import { request } from './request';
import { stream } from './stream';

export type Language = 'kql' | 'lucene' | 'dsl';

/** Selection and order of events: the common part of every Discover request. */
export interface Question {
  index: string;
  /** Dates, date math or milliseconds; both ends are inclusive. */
  time?: { field: string; from?: string | number; to?: string | number; zone: string };
  query?: { language: Language; text?: string; dsl?: unknown };
  filters?: object[];
  sort?: object[];
  columns?: string[];
}

export interface Hit {
  _index: string;
  _id: string;
  _routing?: string;
  _source?: Record<string, unknown>;
  fields?: Record<string, unknown[]>;
  highlight?: Record<string, string[]>;
  /** Sort values of the hit: `search_after` of the next page. */
  sort?: unknown[];
}

export interface Sample {
  total: { value: number; relation: 'eq' | 'gte' };
  hits: Hit[];
  /** Number of hits cut from the end because the response would be too large. */
  omitted: number;
}

export interface HistogramBucket {
  from_ms: number;
  /** Exclusive. */
  to_ms: number;
  count: number;
  splits: Record<string, number>;
  other: number;
}

export interface Histogram {
  interval: string;
  interval_ms: number;
  calendar: boolean;
  zone: string;
  split_by: string | null;
  splits: string[];
  buckets: HistogramBucket[];
}

export interface FieldCount {
  name: string;
  type: string | null;
  cardinality: number | null;
  exact: boolean;
  /** Events that have a value. */
  documents: number | null;
  error?: ErrorObject;
}

export interface Cardinality {
  fields: FieldCount[];
}

export interface TopValue {
  value: Scalar;
  text: string;
  count: number;
  percent: number;
}

export interface TopValues {
  field: string;
  type: string | null;
  total: number;
  with_value: number;
  missing: number;
  other: number;
  exact: boolean;
  values: TopValue[];
}

export type StageRequest =
  /** With `highlight`, each hit contains the matches of the query in all of its fields. */
  | { stage: 'sample'; size?: number; search_after?: unknown[]; highlight?: boolean }
  | { stage: 'histogram'; split_by?: string | null; width_px?: number; interval?: string }
  | { stage: 'cardinality'; fields?: string[] }
  | { stage: 'top_values'; field: string; size?: number };

export type StageName = StageRequest['stage'];

/** How to run stages that have to fetch much from snapshot repositories. */
export type Frozen = 'ask' | 'run' | 'background';

export interface ShardsDone {
  total: number;
  done: number;
  skipped: number;
  failed: number;
}

interface OfStage {
  stage: StageName;
  field?: string;
}

export interface Opened {
  event: 'opened';
  id: string;
  indices: string[];
  time: { field: string; from_ms: number | null; to_ms: number | null; zone: string } | null;
  now_ms: number;
  query_dsl: object;
}

export interface Estimate extends OfStage {
  event: 'estimate';
  requests: number;
  bytes: number;
  ms: number;
  splits: number;
}

export interface Done extends OfStage {
  event: 'done';
  took_ms: number;
  partial: boolean;
  timed_out: boolean;
  cached: boolean;
  shards: { total: number; successful: number; skipped: number; failed: number; failures?: ShardFailure[] };
  /** Only in responses to operators. */
  cost?: { requests: number; bytes: number };
  result: unknown;
}

/** A field of the query that no index of the source has. */
export interface UnknownField {
  field: string;
  /** Nearest field name, and the query with that name; null if no name is near. */
  suggestion: string | null;
  corrected: string | null;
}

export type DiscoverEvent =
  | Opened
  | { event: 'hints'; unknown_fields: UnknownField[] }
  | (OfStage & { event: 'progress'; shards: ShardsDone })
  | (OfStage & { event: 'partial'; shards: ShardsDone; result: unknown })
  | Done
  | Estimate
  | (OfStage & { event: 'failed'; took_ms: number; status: number; error: ErrorObject })
  | { event: 'end'; took_ms: number };

export type TailEvent =
  | Opened
  | { event: 'hits'; hits: Hit[]; dropped: number; shards?: Done['shards'] }
  | { event: 'failed'; error: ErrorObject; status?: number }
  | { event: 'end'; took_ms: number };

/** Runs the stages of a request. The server stops them when the reader stops or aborts. */
export const discover = (question: Question, stages: StageRequest[], frozen: Frozen, signal: AbortSignal) =>
  stream<DiscoverEvent>('/_firn/discover', { body: { ...question, stages, frozen }, signal });

/** Events of a background run: those so far, then new ones. */
export const discoverRun = (id: string, signal: AbortSignal) => stream<DiscoverEvent>(`/_firn/discover/${encodeURIComponent(id)}`, { signal });

/** Deletes a background run. */
export const endDiscoverRun = (id: string) => request<void>(`/_firn/discover/${encodeURIComponent(id)}`, { method: 'DELETE' });

/** Live tail: new events with the matches of the query. */
export const tail = (question: Question, signal: AbortSignal) => stream<TailEvent>('/_firn/discover/tail', { body: { ...question, highlight: true }, signal });

/** Runs one stage and returns its final result. */
export async function discoverStage<Result>(question: Question, stage: StageRequest, signal: AbortSignal, frozen: Frozen = 'run'): Promise<Done & { result: Result }> {
  for await (const event of discover(question, [stage], frozen, signal)) {
    if (event.event === 'done') return event as Done & { result: Result };
    if (event.event === 'failed') throw errorFromObject(event.error, event.status);
  }
  throw unreachable('the response ended early');
}
