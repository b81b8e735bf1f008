import type { ErrorObject } from './errors';
import { request } from './request';
import type { SearchResponse } from './search';

/** Response of `_async_search`: the results so far. */
export interface AsyncSearch {
  /** Absent if the search completed within the first request. */
  id?: string;
  is_partial: boolean;
  is_running: boolean;
  response: SearchResponse;
  error?: ErrorObject;
}

/** Retention of a search that no request polls any more. Short, because a closed tab does not delete its search. */
const KEEP_ALIVE = '60s';
/** How long one poll waits for new results: short enough to show progress. */
const WAIT = '700ms';

const path = (id: string) => `/_async_search/${encodeURIComponent(id)}`;

/**
 * Runs an async search and yields its results repeatedly until it is complete. Aborting `signal` or leaving the loop
 * deletes the search on the server.
 */
export async function* asyncSearch(index: string, body: object, signal: AbortSignal): AsyncGenerator<AsyncSearch> {
  let state = await request<AsyncSearch>(`/${index.split(',').map(encodeURIComponent).join(',')}/_async_search`, {
    body,
    query: { wait_for_completion_timeout: WAIT, keep_alive: KEEP_ALIVE, ignore_unavailable: true },
    values: true,
    signal,
  });
  const { id } = state;
  try {
    yield state;
    while (state.is_running && id) {
      state = await request<AsyncSearch>(path(id), { query: { wait_for_completion_timeout: WAIT, keep_alive: KEEP_ALIVE }, values: true, signal });
      yield state;
    }
  } finally {
    // The server stores a completed search only if it completed after the first response.
    if (id) void request(path(id), { method: 'DELETE', on401: 'fail' }).catch(() => undefined);
  }
}
