import { ApiError } from '../../api/errors';
import { isReversed, REVERSED, type TimeRange } from '../../lib/time-range';

/** Error messages by place: at the query bar, at the time picker, or for the whole page. */
export interface Failures {
  query: ApiError | null;
  time: string | null;
  page: unknown;
}

/** Server errors about a time range that is invalid or reversed. */
const OF_TIME = /date field|date math|^\[(from|to)\] of \[time\]/;

export function failuresOf(failure: unknown, range: TimeRange, nowMs: number, zone: string): Failures {
  const nothing: Failures = { query: null, time: null, page: null };
  if (!(failure instanceof ApiError)) return { ...nothing, page: failure };
  if (failure.position !== undefined) return { ...nothing, query: failure };
  if (failure.status !== 400) return { ...nothing, page: failure };
  // A query may also contain dates: the error belongs to the range only if the range is not known to be valid.
  const reversed = isReversed(range, nowMs, zone);
  if (reversed === false || !OF_TIME.test(failure.message)) return { ...nothing, query: failure };
  return { ...nothing, time: reversed ? REVERSED : failure.message };
}

/** Syntax error of KQL, in the words of Kibana's parser. */
const KQL_SYNTAX = /^line (\d+):(\d+): Expected ([\s\S]+) but ([\s\S]+) found$/;

/** Returns the message of the query bar for a query error: syntax errors of KQL are shortened, other messages stay. */
export function queryErrorText(message: string): string {
  const [, line, column, expected, found] = KQL_SYNTAX.exec(message) ?? [];
  if (expected === undefined || found === undefined) return message;
  const place = line === '1' ? `Column ${column ?? ''}` : `Line ${line ?? ''}, column ${column ?? ''}`;
  // A quoted string comes with its quotes in quotes.
  return `${place}: expected ${expected}, found ${found.replace(/^""([\s\S]*)""$/, '"$1"')}`;
}
