/** Wall-clock time in a zone. Months count from 1. */
export interface Wall {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  ms: number;
}

const DAY_MS = 86_400_000;
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      era: 'short',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(zone, format);
  }
  return format;
}

/** Converts an instant to wall-clock time. */
export function toWall(ms: number, zone: string): Wall {
  const parts: Record<string, string> = {};
  for (const { type, value } of formatOf(zone).formatToParts(ms)) parts[type] = value;
  const year = Number(parts['year']);
  return {
    year: parts['era'] === 'BC' ? 1 - year : year,
    month: Number(parts['month']),
    day: Number(parts['day']),
    hour: Number(parts['hour']),
    minute: Number(parts['minute']),
    second: Number(parts['second']),
    ms: ((ms % 1000) + 1000) % 1000,
  };
}

/** Converts wall-clock time in UTC to an instant. Out-of-range fields carry over. */
export function wallAsUtc({ year, month, day, hour, minute, second, ms }: Wall): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, ms);
  return date.getTime();
}

/** Returns the UTC offset of the zone at an instant, in ms. */
export function zoneOffset(ms: number, zone: string): number {
  return wallAsUtc(toWall(ms, zone)) - ms;
}

/** Returns a predicate for instants whose wall-clock time is ambiguous because the clock is set back. */
export function doubledClock(zone: string): (ms: number) => boolean {
  // Clocks are set back on few days: all other days are cached.
  const plainDays = new Set<number>();
  return (ms) => {
    const day = Math.floor(ms / DAY_MS);
    if (plainDays.has(day)) return false;
    const before = zoneOffset((day - 1) * DAY_MS, zone);
    const after = zoneOffset((day + 2) * DAY_MS, zone);
    if (before <= after) {
      if (plainDays.size < PLAIN_DAYS_MAX) plainDays.add(day);
      return false;
    }
    const back = before - after;
    return zoneOffset(ms, zone) === before ? zoneOffset(ms + back, zone) === after : zoneOffset(ms - back, zone) === before;
  };
}

/** Maximum number of cached days: thirty years. */
const PLAIN_DAYS_MAX = 11_000;

/**
 * Converts wall-clock time to an instant: the first one if the time is ambiguous. A skipped time is shifted forward by the
 * length of the gap.
 */
export function fromWall(wall: Wall, zone: string): number {
  const utc = wallAsUtc(wall);
  const before = zoneOffset(utc - DAY_MS, zone);
  const after = zoneOffset(utc + DAY_MS, zone);
  const fits = [...new Set([before, after])].map((offset) => utc - offset).filter((ms) => zoneOffset(ms, zone) === utc - ms);
  return fits.length > 0 ? Math.min(...fits) : utc - before;
}

const pad = (value: number, width = 2) => String(value).padStart(width, '0');

/** Formats `2026-11-22 15:30:05`, the format of date inputs. */
export function wallText(ms: number, zone: string): string {
  const { year, month, day, hour, minute, second } = toWall(ms, zone);
  return `${pad(year, 4)}-${pad(month)}-${pad(day)} ${pad(hour)}:${pad(minute)}:${pad(second)}`;
}

/** Parses the format of `wallText`; the time may be shorter or have ms. Null if invalid. */
export function parseWallText(text: string, zone: string): number | null {
  const found = /^(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?)?$/.exec(text.trim());
  if (!found) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map((part) => Number(part ?? 0));
  const wall = { year, month, day, hour, minute, second, ms: Number((found[7] ?? '').padEnd(3, '0')) };
  const back = new Date(wallAsUtc(wall));
  const exists = back.getUTCMonth() + 1 === month && back.getUTCDate() === day && hour < 24 && minute < 60 && second < 60;
  return exists ? fromWall(wall, zone) : null;
}

/** Like `parseWallText`, but text equal to `ms` to the second keeps that instant: an ambiguous time has two. */
export function parseWallTextNear(text: string, ms: number | null, zone: string): number | null {
  return ms !== null && text.trim() === wallText(ms, zone) ? Math.floor(ms / 1000) * 1000 : parseWallText(text, zone);
}
