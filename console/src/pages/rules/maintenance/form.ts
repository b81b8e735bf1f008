import type { Severity } from '../../../api/alerts';
import { type MaintenanceWindow, type Repeat, type Weekday, WEEKDAYS } from '../../../api/maintenance-windows';
import { durationProblem } from '../../../lib/duration';
import { EMPTY_QUERY, type QueryInput, queryInput, queryMembers, queryProblem } from '../query-form';
import { instantMs, localText } from './local-time';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Longest occurrences, as the server has them (`maintenance_window.rs`), ms. */
const LENGTH_MS_MAX = { '': 366 * DAY_MS, day: DAY_MS, week: 7 * DAY_MS, month: 28 * DAY_MS };
const COUNT_MAX = 1000;

/** Definition of a maintenance window as the form edits it. Times are local ones of the zone, `2026-12-01T22:00`. */
export interface WindowInput {
  title: string;
  zone: string;
  start: string;
  /** Whether the end is given, or the length. */
  has: 'duration' | 'end';
  duration: string;
  end: string;
  /** Empty: it occurs once. */
  every: Repeat['every'] | '';
  /** Empty: each day, or the weekday of the start. */
  weekdays: Weekday[];
  stops: 'never' | 'until' | 'count';
  until: string;
  count: number | '';
  tenant: string;
  /** Ids; empty: all. */
  rules: string[];
  minSeverity: Severity | null;
  query: QueryInput;
}

/** Input of a new window: the next full hour, for two hours. */
export function newWindow(nowMs: number, zone: string): WindowInput {
  return {
    title: '',
    zone,
    start: localText(Math.ceil(nowMs / HOUR_MS) * HOUR_MS, zone),
    has: 'duration',
    duration: '2h',
    end: '',
    every: '',
    weekdays: [],
    stops: 'never',
    until: '',
    count: '',
    tenant: '',
    rules: [],
    minSeverity: null,
    query: EMPTY_QUERY,
  };
}

/** Converts a stored definition to the input of the form. */
export function windowInput({ title, start, end, duration, repeat, timezone: zone = 'UTC', ...definition }: MaintenanceWindow): WindowInput {
  return {
    title,
    zone,
    start: localText(start, zone),
    has: end === undefined ? 'duration' : 'end',
    duration: duration ?? '2h',
    end: localText(end, zone),
    every: repeat?.every ?? '',
    weekdays: repeat?.weekdays ?? [],
    stops: repeat?.until !== undefined ? 'until' : repeat?.count !== undefined ? 'count' : 'never',
    until: localText(repeat?.until, zone),
    count: repeat?.count ?? '',
    tenant: definition.tenant ?? '',
    rules: definition.rules ?? [],
    minSeverity: definition.min_severity ?? null,
    query: queryInput(definition),
  };
}

/**
 * Converts the input of the form to a definition. A time that the user has not changed stays as it is stored, to the ms.
 * Throws if a query of the query DSL is not valid JSON.
 */
export function windowDefinition(input: WindowInput, stored: MaintenanceWindow | null): MaintenanceWindow {
  const { zone, every } = input;
  const isSameZone = stored !== null && (stored.timezone ?? 'UTC') === zone;
  const time = (typed: string, before: string | number | undefined) => (isSameZone && before !== undefined && localText(before, zone) === typed ? before : typed);
  const weekdays = every === 'month' ? [] : WEEKDAYS.filter((day) => input.weekdays.includes(day));
  const repeat = every !== '' && {
    every,
    ...(weekdays.length > 0 && { weekdays }),
    ...(input.stops === 'until' && { until: time(input.until, stored?.repeat?.until) }),
    ...(input.stops === 'count' && input.count !== '' && { count: input.count }),
  };
  return {
    title: input.title.trim(),
    start: time(input.start, stored?.start),
    ...(input.has === 'end' ? { end: time(input.end, stored?.end) } : { duration: input.duration.trim() }),
    ...(repeat && { repeat }),
    ...((zone !== 'UTC' || stored?.timezone) && { timezone: zone }),
    ...(input.tenant.trim() && { tenant: input.tenant.trim() }),
    ...(input.rules.length > 0 && { rules: input.rules }),
    ...(input.minSeverity && { min_severity: input.minSeverity }),
    ...(input.query.text.trim() && queryMembers(input.query)),
  };
}

/** Returns why inputs are invalid, by their names. Missing inputs are not invalid. */
export function windowProblems(input: WindowInput): Partial<Record<keyof WindowInput, string>> {
  const most = LENGTH_MS_MAX[input.every];
  const [start, end, until] = [input.start, input.end, input.until].map((text) => instantMs(text, input.zone)) as [number | null, number | null, number | null];
  const isBefore = (ms: number | null) => start !== null && ms !== null && ms <= start;
  const found: [keyof WindowInput, string | null | false][] = [
    ['duration', input.has === 'duration' && durationProblem(input.duration, 1, most)],
    ['end', input.has === 'end' && (isBefore(end) ? 'After the start' : start !== null && end !== null && end - start > most && `At most ${most / DAY_MS} days after the start`)],
    ['until', input.every !== '' && input.stops === 'until' && start !== null && until !== null && until < start && 'Not before the start'],
    ['count', input.every !== '' && input.stops === 'count' && input.count !== '' && !(input.count >= 1 && input.count <= COUNT_MAX) && 'From 1 to 1,000'],
    ['query', queryProblem(input.query)],
  ];
  return Object.fromEntries(found.filter(([, problem]) => problem));
}

/** Returns the labels of inputs that are empty and have to be filled in. */
export function windowMissing(input: WindowInput): string[] {
  const needs: [string, boolean][] = [
    ['Title', input.title.trim() === ''],
    ['Start', input.start === ''],
    ['Length', input.has === 'duration' && input.duration.trim() === ''],
    ['End', input.has === 'end' && input.end === ''],
    ['Last start', input.every !== '' && input.stops === 'until' && input.until === ''],
    ['Number of times', input.every !== '' && input.stops === 'count' && input.count === ''],
  ];
  return needs.flatMap(([label, isMissing]) => (isMissing ? [label] : []));
}
