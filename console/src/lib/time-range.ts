import { type Format, isInstant } from './format';
import { fromWall, toWall, type Wall, wallAsUtc } from './zoned-time';

/** Time range with inclusive ends: date math from now (`now-15m`, `now/d`), or instants in ISO 8601. */
export interface TimeRange {
  from: string;
  to: string;
}

export const UNITS = ['s', 'm', 'h', 'd', 'w', 'M', 'y'] as const;
export type Unit = (typeof UNITS)[number];

const UNIT_NAMES: Record<Unit, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month', y: 'year' };
const FIXED_MS: Partial<Record<Unit, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

/** Quick ranges of the time picker, shortest first. */
export const QUICK_RANGES: { label: string; range: TimeRange }[] = [
  { label: 'Last 15 minutes', range: { from: 'now-15m', to: 'now' } },
  { label: 'Last hour', range: { from: 'now-1h', to: 'now' } },
  { label: 'Last 4 hours', range: { from: 'now-4h', to: 'now' } },
  { label: 'Last 24 hours', range: { from: 'now-24h', to: 'now' } },
  { label: 'Last 7 days', range: { from: 'now-7d', to: 'now' } },
  { label: 'Last 4 weeks', range: { from: 'now-28d', to: 'now' } },
  { label: 'Today', range: { from: 'now/d', to: 'now/d' } },
  { label: 'Yesterday', range: { from: 'now-1d/d', to: 'now-1d/d' } },
  { label: 'This week', range: { from: 'now/w', to: 'now/w' } },
  { label: 'Last week', range: { from: 'now-1w/w', to: 'now-1w/w' } },
  { label: 'This month', range: { from: 'now/M', to: 'now/M' } },
  { label: 'Last month', range: { from: 'now-1M/M', to: 'now-1M/M' } },
];

/** Date math from now with one offset. */
export interface Relative {
  /** Negative is before now. */
  amount: number;
  unit: Unit;
  /** Rounds down to the start of the unit; as an upper end, up to its end. */
  round: Unit | null;
}

/** Parses `now`, `now-15m`, `now-1d/d`; null for other text. */
export function parseRelative(text: string): Relative | null {
  const found = /^now(?:([+-]\d{1,6})([smhdwMy]))?(?:\/([smhdwMy]))?$/.exec(text.trim());
  if (!found) return null;
  return { amount: Number(found[1] ?? 0), unit: (found[2] ?? 's') as Unit, round: (found[3] ?? null) as Unit | null };
}

export function relativeText({ amount, unit, round }: Relative): string {
  const step = amount === 0 ? '' : `${amount > 0 ? '+' : ''}${amount}${unit}`;
  return `now${step}${round ? `/${round}` : ''}`;
}

/** Ms since the epoch as text. Four digits are a year. */
const EPOCH_MS = /^-?\d{5,16}$/;

/** Resolves an end of a range to ms; null if only the server can read it. */
export function resolveBound(text: string, end: 'from' | 'to', nowMs: number, zone: string): number | null {
  const relative = parseRelative(text);
  if (!relative) {
    if (EPOCH_MS.test(text)) return isInstant(Number(text)) ? Number(text) : null;
    return resolveDate(text, end, zone);
  }
  const moved = add(nowMs, relative.amount, relative.unit, zone);
  if (!relative.round) return moved;
  const start = floor(moved, relative.round, zone);
  return end === 'from' ? start : add(start, 1, relative.round, zone) - 1;
}

const DATE = /^(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?(?:(?<=-\d{2}-\d{2})T(\d{2})(?::(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

/**
 * Parses an ISO 8601 date like the server: for an upper end, missing hours, minutes and seconds are the last ones, but
 * a missing day is the first.
 */
function resolveDate(text: string, end: 'from' | 'to', zone: string): number | null {
  const found = DATE.exec(text.trim());
  if (!found) return null;
  const last = end === 'to';
  const part = (at: number, otherwise: number) => (found[at] === undefined ? otherwise : Number(found[at]));
  const wall: Wall = {
    year: part(1, 1970),
    month: part(2, 1),
    day: part(3, 1),
    hour: part(4, last ? 23 : 0),
    minute: part(5, last ? 59 : 0),
    second: part(6, last ? 59 : 0),
    ms: found[7] === undefined ? (last ? 999 : 0) : Number(found[7].padEnd(3, '0').slice(0, 3)),
  };
  const utc = wallAsUtc(wall);
  // Dates such as the 30th of February have carried over.
  const read = toWall(utc, 'UTC');
  if ((Object.keys(wall) as (keyof Wall)[]).some((name) => read[name] !== wall[name])) return null;
  const offset = found[8];
  if (offset === undefined) return fromWall(wall, zone);
  if (offset === 'Z') return utc;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2));
  return utc - (offset.startsWith('-') ? -minutes : minutes) * 60_000;
}

function add(ms: number, amount: number, unit: Unit, zone: string): number {
  if (amount === 0) return ms;
  const fixed = FIXED_MS[unit];
  if (fixed) return ms + amount * fixed;
  const wall = toWall(ms, zone);
  if (unit === 'd' || unit === 'w') return fromWall({ ...wall, day: wall.day + amount * (unit === 'w' ? 7 : 1) }, zone);
  const months = wall.year * 12 + wall.month - 1 + amount * (unit === 'y' ? 12 : 1);
  const [year, month] = [Math.floor(months / 12), (((months % 12) + 12) % 12) + 1];
  const lastDay = new Date(Date.UTC(2000, month, 0)).getUTCDate();
  const days = month === 2 && (year % 4 !== 0 || (year % 100 === 0 && year % 400 !== 0)) ? 28 : lastDay;
  return fromWall({ ...wall, year, month, day: Math.min(wall.day, days) }, zone);
}

const MIDNIGHT = { hour: 0, minute: 0, second: 0, ms: 0 };

/** Rounds an instant down to the start of the unit. Weeks begin on Monday, as on the server. */
function floor(ms: number, unit: Unit, zone: string): number {
  const wall: Wall = toWall(ms, zone);
  switch (unit) {
    case 's':
      return ms - wall.ms;
    case 'm':
      return ms - wall.ms - wall.second * 1000;
    case 'h':
      return ms - wall.ms - wall.second * 1000 - wall.minute * 60_000;
    case 'd':
      return fromWall({ ...wall, ...MIDNIGHT }, zone);
    case 'w': {
      const sinceMonday = (new Date(Date.UTC(wall.year, wall.month - 1, wall.day)).getUTCDay() + 6) % 7;
      return fromWall({ ...wall, ...MIDNIGHT, day: wall.day - sinceMonday }, zone);
    }
    case 'M':
      return fromWall({ ...wall, ...MIDNIGHT, day: 1 }, zone);
    case 'y':
      return fromWall({ ...wall, ...MIDNIGHT, day: 1, month: 1 }, zone);
  }
}

/** Returns the range between two instants, both inclusive. */
export function absoluteRange(fromMs: number, toMs: number): TimeRange {
  return { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
}

/** Doubles a range around its middle; it does not end after now unless it already did. */
export function widen(fromMs: number, toMs: number, nowMs: number): TimeRange {
  const half = Math.max(500, Math.round((toMs - fromMs) / 2));
  const to = toMs <= nowMs ? Math.min(toMs + half, nowMs) : toMs + half;
  return absoluteRange(Math.min(fromMs - half, to - 4 * half), to);
}

/** Returns whether a range ends before it starts; null if only the server can read it. */
export function isReversed(range: TimeRange, nowMs: number, zone: string): boolean | null {
  const from = resolveBound(range.from, 'from', nowMs, zone);
  const to = resolveBound(range.to, 'to', nowMs, zone);
  return from === null || to === null ? null : from > to;
}

/** Error message of a reversed range. */
export const REVERSED = 'Start must be before end';

/** Describes a range: "Last 15 minutes", or its two ends. */
export function describeRange(range: TimeRange, format: Format): string {
  const quick = QUICK_RANGES.find((known) => known.range.from === range.from && known.range.to === range.to);
  if (quick) return quick.label;
  const from = parseRelative(range.from);
  if (from && from.amount < 0 && !from.round && range.to === 'now') return `Last ${counted(-from.amount, from.unit)}`;
  return `${describeBound(range.from, format)} – ${describeBound(range.to, format)}`;
}

function describeBound(text: string, format: Format): string {
  if (text === 'now') return 'now';
  const relative = parseRelative(text);
  if (relative) {
    const { amount, unit, round } = relative;
    const when = amount === 0 ? 'now' : amount < 0 ? `${counted(-amount, unit)} ago` : `in ${counted(amount, unit)}`;
    return round ? `${when}, rounded to ${UNIT_NAMES[round]}` : when;
  }
  const date = DATE.exec(text);
  // A typed date without a zone is shown unchanged.
  const ms = date && date[8] === undefined ? null : resolveBound(text, 'from', 0, format.zone);
  if (ms === null) return text;
  return ms % 60_000 === 0 ? format.minute(ms) : format.time(ms);
}

export function counted(amount: number, unit: Unit): string {
  return `${amount} ${UNIT_NAMES[unit]}${amount === 1 ? '' : 's'}`;
}

/** Longest span that is written as a count of its largest whole unit. */
const SPAN_COUNT_MAX = 99;

/** Formats a span of whole units in words ("7 days", "hour"), to the second; other spans as `format.duration` does. */
export function spanText(ms: number, format: Format): string {
  const seconds = Math.round(ms / 1000);
  const units: [Unit, number][] = [['d', 86_400], ['h', 3600], ['m', 60], ['s', 1]];
  const [unit, size] = units.find(([, size]) => seconds % size === 0) as [Unit, number];
  const amount = seconds / size;
  if (amount === 1) return UNIT_NAMES[unit];
  return amount <= SPAN_COUNT_MAX ? counted(amount, unit) : format.duration(ms);
}
