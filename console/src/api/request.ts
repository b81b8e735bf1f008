import { parseJson } from '../lib/json';
import { credentials } from './credentials';
import { type ApiError, errorFromResponse, isAbort, unreachable } from './errors';

export interface RequestOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** Appended to the path; what is undefined is left out. */
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The answer holds values of events: whole numbers too long for a `number` come as `WholeNumber`. */
  values?: true;
  /** What a 401 means here: by default that the session ended, and the request waits for a new sign-in. */
  on401?: 'wait' | 'fail';
  /** What it means that the session is of another user or view: by default that the session is looked at anew. */
  onOtherSession?: 'look' | 'fail';
  /** The question whose session it is: it goes without a token, and so is answered whoever is there. */
  withoutToken?: true;
}

/** The session is another one, or has another view, than that of the token which the request brought. */
export const SESSION_CHANGED = 'session_changed_exception';

/** Every request of the console goes through here: same origin, CSRF header, errors with the server's own text. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const { body, signal, on401 = 'wait', onOtherSession = 'look' } = options;
  const method = options.method ?? (body === undefined ? 'GET' : 'POST');
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
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...token,
          ...options.headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
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
    // What was asked with the eyes of before is never asked with others.
    if (signal?.aborted || credentials.view() !== view) throw new DOMException('the view has changed', 'AbortError');
  }
}

/** Looks whose session it is now. Throws if that changes nothing. */
async function renewed(refused: Record<string, string>, error: ApiError): Promise<void> {
  const token = JSON.stringify(refused);
  if (JSON.stringify(credentials.headers()) === token) await credentials.lookAgain();
  if (JSON.stringify(credentials.headers()) === token) throw error;
}

/** The JSON of an answer. `T` is a promise of the server's, kept by one file per response shape in this folder. */
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
