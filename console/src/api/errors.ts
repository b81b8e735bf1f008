/** Where in a query text something is wrong: UTF-16 code units, half open. */
export interface Position {
  start: number;
  end: number;
}

interface ErrorCause {
  type?: string;
  reason?: string;
  index?: string;
  caused_by?: ErrorCause;
  /** Of a search that failed: why, of each shard. */
  failed_shards?: { reason?: ErrorCause }[];
}

/** The member `error` of an Elasticsearch error answer. */
export interface ErrorObject extends ErrorCause {
  root_cause?: ErrorCause[];
  position?: Position;
  expected?: string[];
}

/** What firn, or the way to it, refused. `message` is the server's own text, unchanged. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    message: string,
    /** HTTP status; 0 when no answer came at all. */
    readonly status: number,
    /** Elasticsearch's name of the kind of error, such as `index_not_found_exception`. */
    readonly type: string,
    readonly detail: ErrorObject = {},
    /** Seconds the server asks to wait (`Retry-After`), if it does. */
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
  }

  get position(): Position | undefined {
    return this.detail.position;
  }

  get expected(): string[] {
    return this.detail.expected ?? [];
  }
}

/** Nothing answered, or the answer broke off before its end. */
export function unreachable(cause: unknown): ApiError {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new ApiError(`firn cannot be reached: ${detail}`, 0, 'unreachable');
}

/** From `error` of a body, of a `failed` event of a stream or of an asynchronous search. */
export function errorFromObject(error: ErrorObject, status: number): ApiError {
  const root = error.root_cause?.[0];
  const told = toldOf(error, root);
  const message = told.reason || root?.reason || told.type || `status ${status}`;
  return new ApiError(message, status, told.type ?? 'error', error);
}

/** The one of an error's causes that says what is wrong. */
function toldOf(error: ErrorCause, root?: ErrorCause): ErrorCause {
  // An asynchronous search says only that it failed, and as in Elasticsearch has no root cause.
  if (error.type === 'status_exception' && error.caused_by) return toldOf(error.caused_by);
  if (error.type !== 'search_phase_execution_exception') return error;
  // Of a search that failed on every shard the error itself says no more than that; one that failed afterwards has no shards to blame.
  const causes = [root, error.failed_shards?.[0]?.reason, error.caused_by];
  return causes.find((cause) => cause?.reason) ?? error;
}

/** From an answer that is not 2xx: Elasticsearch's error body if it has one, else its text as it is. */
export async function errorFromResponse(response: Response): Promise<ApiError> {
  const text = await response.text();
  const retryAfter = Number.parseInt(response.headers.get('retry-after') ?? '', 10);
  const wait = Number.isNaN(retryAfter) ? null : retryAfter;
  try {
    const body: unknown = JSON.parse(text);
    if (body && typeof body === 'object' && 'error' in body) {
      const error = (body as { error: ErrorObject | string }).error;
      const detail = typeof error === 'string' ? { reason: error } : error;
      const made = errorFromObject(detail, response.status);
      return new ApiError(made.message, made.status, made.type, detail, wait);
    }
  } catch {
    // Not JSON: a proxy's page, or plain text. It is shown as it came.
  }
  return new ApiError(text.trim() || response.statusText || `status ${response.status}`, response.status, 'error', {}, wait);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The text to show for anything caught. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
