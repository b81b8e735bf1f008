import { request } from './request';

/** Item of `GET /_snapshot`. */
export interface Repository {
  type: string;
  uuid?: string;
  settings: Record<string, unknown>;
}

/** Statistics of one kind of request in the report of `_analyze`. */
export interface AnalyzedRequests {
  count: number;
  total_size_bytes: number;
  bytes_per_second_each: number;
  /** By percentile: `50.0`, `90.0`, `99.0`, `100.0`. */
  latency_ms: Record<string, number>;
}

/** `POST /_snapshot/{repository}/_analyze`. */
export interface Analysis {
  repository: string;
  blob_count: number;
  concurrency: number;
  max_blob_size_bytes: number;
  /** Failed consistency checks; empty for a correct store. */
  issues_detected: string[];
  /** Unusual but harmless behaviour. */
  notes: string[];
  summary: Record<string, { count: number; total_size_bytes: number; total_elapsed_nanos: number }>;
  requests: Record<string, AnalyzedRequests>;
  elapsed_nanos: number;
}

export interface AnalyzeOptions {
  blob_count: number;
  concurrency: number;
  /** A size such as `10mb`. */
  max_blob_size: string;
  max_total_data_size: string;
}

const path = (name: string) => `/_snapshot/${encodeURIComponent(name)}`;

export const listRepositories = (signal?: AbortSignal) => request<Record<string, Repository>>('/_snapshot', { ...(signal && { signal }) });

export const putRepository = (name: string, type: string, settings: Record<string, unknown>, verify: boolean) =>
  request<{ acknowledged: boolean }>(path(name), { method: 'PUT', body: { type, settings }, query: { verify } });

/** Unregisters the repository; its contents stay in the store. */
export const deleteRepository = (name: string) => request<{ acknowledged: boolean }>(path(name), { method: 'DELETE' });

export const verifyRepository = (name: string) =>
  request<{ nodes: Record<string, { name: string }> }>(`${path(name)}/_verify`, { method: 'POST' });

export const analyzeRepository = (name: string, options: AnalyzeOptions, signal?: AbortSignal) =>
  request<Analysis>(`${path(name)}/_analyze`, { method: 'POST', query: { ...options }, ...(signal && { signal }) });

/** Deletes objects that no snapshot references. */
export const cleanupRepository = (name: string) =>
  request<{ results: { deleted_bytes: number; deleted_blobs: number } }>(`${path(name)}/_cleanup`, { method: 'POST' });
