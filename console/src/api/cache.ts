import { request } from './request';

/** Statistics of one kind of split part in the region cache, which all frozen indices share. */
export interface CacheKind {
  requested_in_bytes: number;
  hit_in_bytes: number;
  missed_in_bytes: number;
  /** Null before the first read. */
  hit_rate: number | null;
  fetched_in_bytes: number;
  cached_in_bytes: number;
  evicted_in_bytes: number;
}

/** `GET /_searchable_snapshots/cache/stats` of this node. */
export interface CacheStats {
  shared_cache: {
    size_in_bytes: number;
    used_in_bytes: number;
    pinned_in_bytes: number;
    evictions: number;
    store_requests: number;
    joined_requests: number;
    damaged_pages: number;
    bypassed_in_bytes: number;
    bytes_read_in_bytes: number;
    bytes_written_in_bytes: number;
    kinds: Record<string, CacheKind>;
  };
  open_splits: { count: number; memory_in_bytes: number };
}

export const fetchCacheStats = async (signal?: AbortSignal): Promise<CacheStats | null> => {
  const answer = await request<{ nodes: Record<string, CacheStats> }>('/_searchable_snapshots/cache/stats', { ...(signal && { signal }) });
  return Object.values(answer.nodes)[0] ?? null;
};
