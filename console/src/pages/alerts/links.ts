import type { AlertDocument, AlertState } from '../../api/alerts';
import { dateMs } from '../../lib/event-fields';
import { absoluteRange } from '../../lib/time-range';
import { eventAddress } from '../discover/event-address';
import { EMPTY_STATE, encodeState } from '../discover/state';

/** Time before and after the event in the list of its surrounding events. */
const AROUND_MS = 5 * 60_000;

/** Path of the event of an alert in Discover; null if the event was not indexed. */
export function eventPath({ event }: AlertState): string | null {
  return event?.index && event.id ? eventAddress({ _index: event.index, _id: event.id }) : null;
}

/** Path of the events of the same index within five minutes of the event; null if its index or time is unknown. */
export function surroundingPath({ event }: AlertState): string | null {
  const atMs = dateMs(event?.time);
  if (!event?.index || atMs === null) return null;
  return `/discover?${encodeState({ ...EMPTY_STATE, source: event.index, range: absoluteRange(atMs - AROUND_MS, atMs + AROUND_MS) })}`;
}

/** Path of the events of an alert's window that have the values of its group; null if it is of one event. */
export function windowPath({ window, group_by: groupBy = {} }: AlertState): string | null {
  const [from, to] = [dateMs(window?.start), dateMs(window?.end)];
  if (from === null || to === null) return null;
  const filters = Object.entries(groupBy).flatMap(([field, [value]]) => (value === undefined ? [] : [`${field}: ${JSON.stringify(String(value))}`]));
  return `/discover?${encodeState({ ...EMPTY_STATE, source: '*', range: absoluteRange(from, to), text: filters.join(' and ') })}`;
}

/** Members that the drawer shows in sections of their own. */
const SECTIONS = ['rule', 'threat', 'firn'];

/** Returns the copy of the event without what the rule added. Its time is that of the event, not of the detection. */
export function eventFields(alert: AlertDocument): Record<string, unknown> {
  const { '@timestamp': detected, ...members } = alert;
  const fields = Object.entries(members).filter(([name]) => !SECTIONS.includes(name));
  return { '@timestamp': alert.firn?.alert?.event?.time ?? detected, ...Object.fromEntries(fields) };
}

/** Web address of a rule's reference; null for other text, which is no link. */
export function webAddress(text: string | undefined): string | null {
  return text && /^https?:\/\//i.test(text) && URL.canParse(text) ? text : null;
}

/** Values of the grouping fields as one line: `host.name: web-1; source.ip: 10.0.0.1`. */
export function groupText({ group_by: groupBy = {} }: AlertState): string {
  return Object.entries(groupBy)
    .map(([field, values]) => `${field}: ${values.length > 0 ? values.join(', ') : '–'}`)
    .join('; ');
}
