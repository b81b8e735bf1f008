import { ApiError } from '../../api/errors';
import { isReversed, REVERSED, type TimeRange } from '../../lib/time-range';

/** Where what went wrong is said: at the query, at the time, or of the page as a whole. */
export interface Failures {
  query: ApiError | null;
  time: string | null;
  page: unknown;
}

/** What the server says of a time that it cannot read, or that ends before it begins. */
const OF_TIME = /date field|date math|^\[(from|to)\] of \[time\]/;

export function failuresOf(failure: unknown, range: TimeRange, nowMs: number, zone: string): Failures {
  const nothing: Failures = { query: null, time: null, page: null };
  if (!(failure instanceof ApiError)) return { ...nothing, page: failure };
  if (failure.position !== undefined) return { ...nothing, query: failure };
  if (failure.status !== 400) return { ...nothing, page: failure };
  // A query may hold dates, too: the range is to blame only if there is something wrong with it.
  const reversed = isReversed(range, nowMs, zone);
  if (reversed === false || !OF_TIME.test(failure.message)) return { ...nothing, query: failure };
  return { ...nothing, time: reversed ? REVERSED : failure.message };
}
