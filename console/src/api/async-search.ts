import type { ErrorObject } from './errors';
import { request } from './request';
import type { SearchResponse } from './search';

/** The answer of `_async_search`: what was found so far. */
export interface AsyncSearch {
  /** Absent when the search ended before it was answered. */
  id?: string;
  is_partial: boolean;
  is_running: boolean;
  response: SearchResponse;
  error?: ErrorObject;
}

/** How long the server keeps a search that nobody asks for any more: a closed tab leaves little behind. */
const KEEP_ALIVE = '60s';
/** How long one question waits for more: short enough that progress is seen. */
const WAIT = '700ms';

const path = (id: string) => `/_async_search/${encodeURIComponent(id)}`;

/**
 * Runs a search in the background of the server and yields what is known, again and again until it is whole. Whoever
 * stops listening, by `signal` or by leaving the loop, ends the search on the server too.
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
    // What is done was not kept, unless it became done after its first answer.
    if (id) void request(path(id), { method: 'DELETE', on401: 'fail' }).catch(() => undefined);
  }
}
