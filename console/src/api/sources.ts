import { request } from './request';

/** Searchable source: a data stream, an alias or an index. */
export interface Source {
  name: string;
  kind: 'data_stream' | 'alias' | 'index';
  indices: number;
  /** Null if its events have no time. */
  time_field: string | null;
  tier: string[];
  hidden: boolean;
}

export interface Sources {
  sources: Source[];
  default: string | null;
}

export const fetchSources = (signal?: AbortSignal) => request<Sources>('/_firn/discover/sources', { ...(signal && { signal }) });
