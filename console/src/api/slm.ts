import { request } from './request';

/** A snapshot that a policy took, or tried to. Times are milliseconds since the epoch. */
export interface SnapshotInvocation {
  snapshot_name: string;
  start_time?: number;
  time: number;
  /** Why it failed. */
  details?: string;
}

/** What is sent with `PUT /_slm/policy/{id}`. */
export interface SnapshotPolicyBody {
  /** Six fields of cron, or an interval such as `1h`. */
  schedule: string;
  /** With date math, such as `<nightly-{now/d}>`; the server adds a unique end. */
  name: string;
  repository: string;
  config?: { indices?: string | string[] } & Record<string, unknown>;
  retention?: { expire_after?: string; min_count?: number; max_count?: number };
}

/** One of `GET /_slm/policy`. */
export interface SnapshotPolicy {
  version: number;
  policy: SnapshotPolicyBody;
  last_success?: SnapshotInvocation;
  last_failure?: SnapshotInvocation;
  /** Below zero: never. */
  next_execution_millis: number;
  in_progress?: { name: string; state: string };
  stats: { snapshots_taken: number; snapshots_failed: number; snapshots_deleted: number; snapshot_deletion_failures: number };
}

const path = (id: string) => `/_slm/policy/${encodeURIComponent(id)}`;

export const listSnapshotPolicies = (signal?: AbortSignal) => request<Record<string, SnapshotPolicy>>('/_slm/policy', { ...(signal && { signal }) });

export const putSnapshotPolicy = (id: string, policy: SnapshotPolicyBody) => request<{ acknowledged: boolean }>(path(id), { method: 'PUT', body: policy });

/** Its snapshots stay. */
export const deleteSnapshotPolicy = (id: string) => request<{ acknowledged: boolean }>(path(id), { method: 'DELETE' });

/** Begins a snapshot now. */
export const runSnapshotPolicy = (id: string) => request<{ snapshot_name: string }>(`${path(id)}/_execute`, { method: 'POST' });

/** Begins to remove what policies keep no longer. */
export const runRetention = () => request<{ acknowledged: boolean }>('/_slm/_execute_retention', { method: 'POST' });

export const fetchSnapshotPoliciesMode = async (signal?: AbortSignal): Promise<string> =>
  (await request<{ operation_mode: string }>('/_slm/status', { ...(signal && { signal }) })).operation_mode;

export const startSnapshotPolicies = () => request<{ acknowledged: boolean }>('/_slm/start', { method: 'POST' });

/** A snapshot that has begun is finished, none begins. */
export const stopSnapshotPolicies = () => request<{ acknowledged: boolean }>('/_slm/stop', { method: 'POST' });
