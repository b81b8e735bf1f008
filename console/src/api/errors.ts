/** Position of an error in a query text: half-open range of UTF-16 code units. */
export interface Position {
  start: number;
  end: number;
}

interface ErrorCause {
  type?: string;
  reason?: string;
  index?: string;
  caused_by?: ErrorCause;
  /** Reason of each shard of a failed search. */
  failed_shards?: { reason?: ErrorCause }[];
}

/** Member `error` of an Elasticsearch error response. */
export interface ErrorObject extends ErrorCause {
  root_cause?: ErrorCause[];
  position?: Position;
  expected?: string[];
}

/** Failed request, either refused by firn or lost on the network. `message` is the server's text, unchanged. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    message: string,
    /** HTTP status; 0 without a response. */
    readonly status: number,
    /** Elasticsearch error type, such as `index_not_found_exception`. */
    readonly type: string,
    readonly detail: ErrorObject = {},
    /** Seconds of the `Retry-After` header, if present. */
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

/** Error of a request without a response, or with an incomplete one. */
export function unreachable(cause: unknown): ApiError {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new ApiError(`firn cannot be reached: ${detail}`, 0, 'unreachable');
}

/** Converts `error` of a response body, of a `failed` stream event or of an async search. */
export function errorFromObject(error: ErrorObject, status: number): ApiError {
  const root = error.root_cause?.[0];
  const told = toldOf(error, root);
  const message = told.reason || root?.reason || told.type || `status ${status}`;
  return new ApiError(message, status, told.type ?? 'error', error);
}

/** Returns the cause that explains the error. */
function toldOf(error: ErrorCause, root?: ErrorCause): ErrorCause {
  // The error of an async search says only that it failed; as in Elasticsearch, it has no root cause.
  if (error.type === 'status_exception' && error.caused_by) return toldOf(error.caused_by);
  if (error.type !== 'search_phase_execution_exception') return error;
  // If all shards failed, the error itself says no more than that. If the reduce phase failed, there are no failed
  // shards.
  const causes = [root, error.failed_shards?.[0]?.reason, error.caused_by];
  return causes.find((cause) => cause?.reason) ?? error;
}

/** Converts a response that is not 2xx: from Elasticsearch's error body if present, else from the plain text. */
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
    // Not JSON: the page of a proxy, or plain text. It is shown unchanged.
  }
  return new ApiError(text.trim() || response.statusText || `status ${response.status}`, response.status, 'error', {}, wait);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** Text to show for a caught value. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
