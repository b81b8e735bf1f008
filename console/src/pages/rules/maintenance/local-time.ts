import { parseWallText, toWall } from '../../../lib/zoned-time';

const DAY_MS = 86_400_000;
/** Ms since the epoch as text. Four digits are a year. */
const EPOCH_MS = /^\d{5,16}$/;
const LOCAL = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?)?$/;

const OFFSET = /^([+-])(\d{2}):?(\d{2})$/;

/** Offset of a zone such as `+01:00` in ms, which not all browsers know; null for zones with names. */
function offsetMs(zone: string): number | null {
  const [, sign, hours, minutes] = OFFSET.exec(zone) ?? [];
  return sign === undefined ? null : (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

/** Converts a date of a definition to ms; null if it is no date. */
export function instantMs(value: string | number | null | undefined, zone: string): number | null {
  if (typeof value === 'number') return value;
  const text = value?.trim() ?? '';
  if (EPOCH_MS.test(text)) return Number(text);
  if (LOCAL.test(text)) return inZone(() => withOffset(parseWallText(text, offsetMs(zone) === null ? zone : 'UTC'), -(offsetMs(zone) ?? 0)));
  const ms = Date.parse(text);
  return /T.*(Z|[+-]\d{2}:?\d{2})$/.test(text) && !Number.isNaN(ms) ? ms : null;
}

const pad = (value: number, width = 2) => String(value).padStart(width, '0');

/** Returns a date of a definition as the local time of a zone, `2026-12-01T22:00`, the format of its input; empty if it is no date. */
export function localText(value: string | number | null | undefined, zone: string): string {
  // Not by its instant, which a local time that the clocks skip does not have.
  if (typeof value === 'string' && LOCAL.test(value.trim())) return value.trim().length === 10 ? `${value.trim()}T00:00` : value.trim();
  const ms = instantMs(value, zone);
  if (ms === null) return '';
  const wall = inZone(() => toWall(ms + (offsetMs(zone) ?? 0), offsetMs(zone) === null ? zone : 'UTC'));
  if (!wall) return '';
  const seconds = wall.second > 0 ? `:${pad(wall.second)}` : '';
  return `${pad(wall.year, 4)}-${pad(wall.month)}-${pad(wall.day)}T${pad(wall.hour)}:${pad(wall.minute)}${seconds}`;
}

const withOffset = (ms: number | null, offset: number) => (ms === null ? null : ms + offset);

/** Null if the browser does not know the zone. */
function inZone<Result>(convert: () => Result): Result | null {
  try {
    return convert();
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Returns the days since the epoch of a local time. */
export const dayOf = (local: string): number => Math.floor(Date.parse(`${local.slice(0, 10)}T00:00:00Z`) / DAY_MS);

/** Returns the weekday of a day, 0 for Monday. */
export const weekdayOf = (day: number): number => (((day + 3) % 7) + 7) % 7;

/** Returns the day of the month of a day, from 1. */
export const dayOfMonth = (day: number): number => new Date(day * DAY_MS).getUTCDate();
