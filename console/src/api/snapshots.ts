import { request } from './request';

/** Item of `GET /_snapshot/{repository}/{snapshot}`. */
export interface Snapshot {
  snapshot: string;
  uuid: string;
  indices: string[];
  data_streams: string[];
  include_global_state?: boolean;
  metadata?: Record<string, unknown>;
  state: string;
  start_time_in_millis: number;
  end_time_in_millis: number;
  duration_in_millis: number;
  failures: { index?: string; shard_id?: number; reason?: string; status?: string }[];
  shards: { total: number; failed: number; successful: number };
}

export interface RestoreRequest {
  indices: string[];
  rename_pattern?: string;
  rename_replacement?: string;
  include_aliases: boolean;
  include_global_state: boolean;
  partial: boolean;
}

export interface MountRequest {
  index: string;
  renamed_index?: string;
}

/** Response of restore and mount with `wait_for_completion`. */
export interface Restored {
  snapshot?: { snapshot: string; indices: string[]; shards: { total: number; failed: number; successful: number } };
  accepted?: boolean;
}

const path = (repository: string, snapshot: string) => `/_snapshot/${encodeURIComponent(repository)}/${encodeURIComponent(snapshot)}`;

export const listSnapshots = async (repository: string, signal?: AbortSignal): Promise<Snapshot[]> =>
  (await request<{ snapshots: Snapshot[] }>(`/_snapshot/${encodeURIComponent(repository)}/_all`, { query: { sort: 'start_time', order: 'desc' }, ...(signal && { signal }) }))
    .snapshots;

export const createSnapshot = (repository: string, snapshot: string, indices: string[], partial: boolean) =>
  request<{ accepted: boolean }>(path(repository, snapshot), {
    method: 'PUT',
    body: { ...(indices.length > 0 && { indices }), include_global_state: false, partial },
  });

export const deleteSnapshot = (repository: string, snapshot: string) =>
  request<{ acknowledged: boolean }>(path(repository, snapshot), { method: 'DELETE' });

/** Starts a restore. It continues after the response; `_tasks` lists it. */
export const restoreSnapshot = (repository: string, snapshot: string, body: RestoreRequest) =>
  request<Restored>(`${path(repository, snapshot)}/_restore`, { method: 'POST', body });

export const mountSnapshot = (repository: string, snapshot: string, storage: 'shared_cache' | 'full_copy', body: MountRequest) =>
  request<Restored>(`${path(repository, snapshot)}/_mount`, { method: 'POST', body, query: { storage, wait_for_completion: true } });
