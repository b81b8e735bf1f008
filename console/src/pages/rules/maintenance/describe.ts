import { type MaintenanceWindow, type Weekday, WEEKDAYS, type WindowStatus } from '../../../api/maintenance-windows';
import type { Format } from '../../../lib/format';
import { dayOf, dayOfMonth, localText, weekdayOf } from './local-time';
import { lengthMs, zoneOf } from './occurrences';

export type WindowState = 'running' | 'upcoming' | 'finished' | 'invalid';

/** States in the order of the list. */
export const STATES: WindowState[] = ['running', 'upcoming', 'invalid', 'finished'];

export function windowState({ active, next_start: next, error }: WindowStatus): WindowState {
  if (error) return 'invalid';
  return active ? 'running' : next ? 'upcoming' : 'finished';
}

export const WEEKDAY_NAMES: Record<Weekday, string> = { mo: 'Mon', tu: 'Tue', we: 'Wed', th: 'Thu', fr: 'Fri', sa: 'Sat', su: 'Sun' };

/** How often a window repeats: `every Tue, Thu until 2026-12-31`; empty if it occurs once. */
export function repeatText(definition: MaintenanceWindow): string {
  const { repeat } = definition;
  if (!repeat) return '';
  const local = localText(definition.start, zoneOf(definition));
  const days = repeat.weekdays ?? (repeat.every === 'week' && local ? [WEEKDAYS[weekdayOf(dayOf(local))] ?? 'mo'] : null);
  const isDaily = repeat.every === 'day' && (days === null || days.length === WEEKDAYS.length);
  const every = isDaily ? 'every day' : days ? `every ${WEEKDAYS.filter((day) => days.includes(day)).map((day) => WEEKDAY_NAMES[day]).join(', ')}` : local ? `every month on day ${dayOfMonth(dayOf(local))}` : 'every month';
  const until = repeat.until === undefined ? '' : `, until ${localText(repeat.until, zoneOf(definition)).replace('T', ' ')}`;
  return `${every}${until}${repeat.count === undefined ? '' : `, ${repeat.count} ${repeat.count === 1 ? 'time' : 'times'}`}`;
}

/** When a window is, in its zone: `2026-12-01 22:00 for 4 h, every Tue, Thu (Europe/Berlin)`. */
export function whenText(definition: MaintenanceWindow, format: Format): string {
  const length = lengthMs(definition);
  const repeat = repeatText(definition);
  const start = localText(definition.start, zoneOf(definition)).replace('T', ' ');
  return `${start}${length === null ? '' : ` for ${format.duration(length)}`}${repeat && `, ${repeat}`} (${zoneOf(definition)})`;
}

const RULES_NAMED = 3;

/** Which alerts a window is for: `tenant acme; rules Port scan, Silent site; severity high or above`. */
export function scopeText({ tenant, rules, min_severity: severity, query }: MaintenanceWindow, nameOf: (rule: string) => string): string {
  const named = rules?.slice(0, RULES_NAMED).map(nameOf).join(', ');
  const more = (rules?.length ?? 0) - RULES_NAMED;
  const parts = [
    tenant && `tenant ${tenant}`,
    rules && `${rules.length === 1 ? 'rule' : 'rules'} ${named}${more > 0 ? ` and ${more} more` : ''}`,
    severity && severity !== 'informational' && (severity === 'critical' ? 'severity critical' : `severity ${severity} or above`),
    query !== undefined && (typeof query === 'string' ? query : JSON.stringify(query)),
  ];
  return parts.filter((part) => part).join('; ') || 'all alerts';
}
