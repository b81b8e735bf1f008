import { type Format, isInstant } from './format';
import { fromWall, toWall, type Wall, wallAsUtc } from './zoned-time';

/** Both ends belong to it: date math from now (`now-15m`, `now/d`), or instants in ISO 8601. */
export interface TimeRange {
  from: string;
  to: string;
}

export const UNITS = ['s', 'm', 'h', 'd', 'w', 'M', 'y'] as const;
export type Unit = (typeof UNITS)[number];

const UNIT_NAMES: Record<Unit, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month', y: 'year' };
const FIXED_MS: Partial<Record<Unit, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

/** What most people ask for, shortest first. */
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

/** Date math from now in one step. */
export interface Relative {
  /** Negative is before now. */
  amount: number;
  unit: Unit;
  /** The beginning (or as an upper end, the end) of what it falls into. */
  round: Unit | null;
}

/** Reads `now`, `now-15m`, `now-1d/d`; null: it is something else. */
export function parseRelative(text: string): Relative | null {
  const found = /^now(?:([+-]\d{1,6})([smhdwMy]))?(?:\/([smhdwMy]))?$/.exec(text.trim());
  if (!found) return null;
  return { amount: Number(found[1] ?? 0), unit: (found[2] ?? 's') as Unit, round: (found[3] ?? null) as Unit | null };
}

export function relativeText({ amount, unit, round }: Relative): string {
  const step = amount === 0 ? '' : `${amount > 0 ? '+' : ''}${amount}${unit}`;
  return `now${step}${round ? `/${round}` : ''}`;
}

/** Ms since the epoch, as text: four digits are a year. */
const EPOCH_MS = /^-?\d{5,16}$/;

/** When an end of a range is, in ms; null: it cannot be read here, and the server is to judge it. */
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

/** Reads a date of ISO 8601 as the server does: of an end, hours and less that it leaves out are the last ones, but a month is its first day. */
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
  // The 30th of February has carried over.
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

/** Where the second, hour, day… begins that an instant falls into. Weeks begin on Monday, as the server's do. */
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

/** The range between two instants, both its own. */
export function absoluteRange(fromMs: number, toMs: number): TimeRange {
  return { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() };
}

/** Twice as long around its middle; never later than now if it was not. */
export function widen(fromMs: number, toMs: number, nowMs: number): TimeRange {
  const half = Math.max(500, Math.round((toMs - fromMs) / 2));
  const to = toMs <= nowMs ? Math.min(toMs + half, nowMs) : toMs + half;
  return absoluteRange(Math.min(fromMs - half, to - 4 * half), to);
}

/** Whether a range ends before it begins; null: it cannot be read here, and the server is to judge it. */
export function isReversed(range: TimeRange, nowMs: number, zone: string): boolean | null {
  const from = resolveBound(range.from, 'from', nowMs, zone);
  const to = resolveBound(range.to, 'to', nowMs, zone);
  return from === null || to === null ? null : from > to;
}

/** What is wrong with a range that ends before it begins. */
export const REVERSED = 'The beginning is after the end.';

/** How a range is named: "Last 15 minutes", or its two ends. */
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
    return round ? `${when}, whole ${UNIT_NAMES[round]}` : when;
  }
  const date = DATE.exec(text);
  // What was typed is read as it is.
  const ms = date && date[8] === undefined ? null : resolveBound(text, 'from', 0, format.zone);
  if (ms === null) return text;
  return ms % 60_000 === 0 ? format.minute(ms) : format.time(ms);
}

export function counted(amount: number, unit: Unit): string {
  return `${amount} ${UNIT_NAMES[unit]}${amount === 1 ? '' : 's'}`;
}
