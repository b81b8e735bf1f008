import { parseJson } from '../lib/json';
import { credentials } from './credentials';
import { type ApiError, errorFromResponse, isAbort, unreachable } from './errors';

export interface RequestOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, instead of JSON. */
  text?: { type: string; content: string };
  /** Appended to the path; undefined values are left out. */
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The response contains event values: integers too long for a `number` are parsed as `WholeNumber`. */
  values?: true;
  /** Reaction to a 401. By default the session has ended and the request waits for a new sign-in. */
  on401?: 'wait' | 'fail';
  /** Reaction to a session of another user or view. By default the session is fetched again. */
  onOtherSession?: 'look' | 'fail';
  /** For the request that fetches the session: it carries no token, so it succeeds for any user. */
  withoutToken?: true;
}

/** Error type: the session has another user or view than the token of the request. */
export const SESSION_CHANGED = 'session_changed_exception';

/**
 * Sends a request: same origin, CSRF header, errors with the server's text. Every request of the console goes through
 * here.
 */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const { signal, on401 = 'wait', onOtherSession = 'look' } = options;
  const sent = options.text ?? (options.body === undefined ? null : { type: 'application/json', content: JSON.stringify(options.body) });
  const method = options.method ?? (sent ? 'POST' : 'GET');
  const view = credentials.view();
  for (;;) {
    const token = options.withoutToken ? {} : credentials.headers();
    let response: Response;
    try {
      response = await fetch(path + queryString(options.query), {
        method,
        credentials: 'same-origin',
        headers: {
          accept: 'application/json',
          ...(sent ? { 'content-type': sent.type } : {}),
          ...token,
          ...options.headers,
        },
        ...(sent ? { body: sent.content } : {}),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      throw isAbort(error) || signal?.aborted ? error : unreachable(error);
    }
    if (response.ok) return response;
    if (response.status === 401 && on401 === 'wait') {
      await credentials.signedInAgain(signal);
    } else {
      const error = await errorFromResponse(response);
      if (error.type !== SESSION_CHANGED || onOtherSession === 'fail') throw error;
      await renewed(token, error);
    }
    // A request of the previous view is never repeated in another view.
    if (signal?.aborted || credentials.view() !== view) throw new DOMException('the view has changed', 'AbortError');
  }
}

/** Fetches the session again. Throws if the token stays the same. */
async function renewed(refused: Record<string, string>, error: ApiError): Promise<void> {
  const token = JSON.stringify(refused);
  if (JSON.stringify(credentials.headers()) === token) await credentials.lookAgain();
  if (JSON.stringify(credentials.headers()) === token) throw error;
}

/**
 * Sends a request and returns the JSON of its response. `T` is not validated; this folder has one file per response
 * shape.
 */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(path, options);
  try {
    const text = await response.text();
    return (text === '' ? undefined : options.values ? parseJson(text) : JSON.parse(text)) as T;
  } catch (error) {
    throw isAbort(error) || options.signal?.aborted ? error : unreachable(error);
  }
}

function queryString(query: RequestOptions['query']): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  if (pairs.length === 0) return '';
  return `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString()}`;
}
