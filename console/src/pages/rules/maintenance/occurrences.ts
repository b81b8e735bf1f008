import { type MaintenanceWindow, type StoredWindow, WEEKDAYS } from '../../../api/maintenance-windows';
import { parseDuration, printDuration } from '../../../lib/duration';
import { dayOf, dayOfMonth, instantMs, localText, weekdayOf } from './local-time';

export const zoneOf = ({ timezone }: MaintenanceWindow): string => timezone ?? 'UTC';

/** Returns the length of an occurrence in ms; null if the definition is invalid. */
export function lengthMs(definition: MaintenanceWindow): number | null {
  if (definition.duration !== undefined) return parseDuration(definition.duration);
  const [start, end] = [definition.start, definition.end].map((value) => instantMs(value, zoneOf(definition)));
  return typeof start === 'number' && typeof end === 'number' ? end - start : null;
}

/** Returns whether a window that repeats has an occurrence on a local day from its first day on. */
function occursOn({ start, repeat, ...others }: MaintenanceWindow, day: number): boolean {
  const first = dayOf(localText(start, zoneOf({ start, ...others })));
  if (repeat?.every === 'month') return dayOfMonth(day) === dayOfMonth(first);
  if (repeat?.weekdays) return repeat.weekdays.includes(WEEKDAYS[weekdayOf(day)] ?? 'mo');
  return repeat?.every !== 'week' || weekdayOf(day) === weekdayOf(first);
}

/**
 * Returns the definition of a running window with the occurrence that is going on ended now. One that repeats starts again
 * at its next occurrence.
 */
export function endedNow({ status, ...definition }: StoredWindow, nowMs: number): MaintenanceWindow {
  const now = new Date(nowMs).toISOString();
  const { duration, repeat, ...others } = definition;
  delete others.end;
  if (!repeat) return { ...others, end: now };
  const zone = zoneOf(definition);
  const length = lengthMs(definition) ?? 0;
  const nextMs = instantMs(status.next_start, zone);
  if (nextMs === null) {
    // The last occurrence alone, which is over.
    const untilMs = instantMs(status.active_until, zone) ?? nowMs;
    return { ...others, start: new Date(untilMs - length).toISOString(), end: now };
  }
  const first = localText(definition.start, zone);
  const next = localText(nextMs, zone);
  // The time of the day is that of the first start: a next one that the clocks skip is later, and would move all that follow.
  const start = `${next.slice(0, 10)}${first.slice(10)}`;
  let count = repeat.count;
  if (count !== undefined) for (let day = dayOf(first); day < dayOf(next); day++) if (occursOn(definition, day)) count -= 1;
  return { ...others, start, duration: duration ?? printDuration(length), repeat: { ...repeat, ...(count !== undefined && { count }) } };
}
