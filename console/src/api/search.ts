import type { ShardFailure } from '../components/Partial';
import type { WholeNumber } from '../lib/json';
import { request } from './request';

export interface Shards {
  total: number;
  successful: number;
  skipped: number;
  failed: number;
  failures?: ShardFailure[];
}

/** Value that the events of a bucket share. */
export type BucketKey = string | number | WholeNumber;

export interface Bucket {
  key: BucketKey;
  key_as_string?: string;
  doc_count: number;
  [aggregation: string]: unknown;
}

/** Result of any aggregation: buckets or values. */
export interface Aggregation {
  buckets?: Bucket[];
  sum_other_doc_count?: number;
  values?: Record<string, number | null>;
  value?: number | null;
  doc_count?: number;
}

/** Response of `_search`. */
export interface SearchResponse<Source = Record<string, unknown>> {
  took: number;
  timed_out: boolean;
  _shards: Shards;
  hits: { total?: { value: number; relation: 'eq' | 'gte' }; hits: { _index: string; _id: string; _source: Source }[] };
  aggregations?: Record<string, Aggregation>;
}

export const search = <Source = Record<string, unknown>>(index: string, body: object, signal?: AbortSignal) =>
  request<SearchResponse<Source>>(`/${encodeURIComponent(index)}/_search`, { body, query: { ignore_unavailable: true }, ...(signal && { signal }) });
