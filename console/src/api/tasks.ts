import { request } from './request';

/** Item of `GET /_tasks`. */
export interface Task {
  node: string;
  id: number;
  action: string;
  description?: string;
  start_time_in_millis: number;
  running_time_in_nanos: number;
  cancellable: boolean;
  cancelled: boolean;
  headers: Record<string, string>;
}

/** Action of the list request itself, which the list hides. */
const LISTING = 'cluster:monitor/tasks/lists';

/** Lists tasks, longest running first. */
export const listTasks = async (signal?: AbortSignal): Promise<Task[]> => {
  const { tasks } = await request<{ tasks: Task[] }>('/_tasks', { query: { detailed: true, group_by: 'none' }, ...(signal && { signal }) });
  return tasks.filter((task) => task.action !== LISTING).sort((left, right) => right.running_time_in_nanos - left.running_time_in_nanos);
};

export const cancelTask = (task: Task) =>
  request<unknown>(`/_tasks/${encodeURIComponent(`${task.node}:${task.id}`)}/_cancel`, { method: 'POST' });
