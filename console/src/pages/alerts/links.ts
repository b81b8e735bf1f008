import type { AlertDocument, AlertHit, AlertState, AlertStep } from '../../api/alerts';
import { dateMs } from '../../lib/event-fields';
import { kqlIs } from '../../lib/query-dsl';
import { absoluteRange } from '../../lib/time-range';
import { eventAddress } from '../discover/event-address';
import { EMPTY_STATE, encodeState } from '../discover/state';
import { EMPTY_STATE as EMPTY_ALERTS, encodeState as encodeAlerts } from './state';

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

/** KQL of the values of an alert's group. Fields that the alert has not are those of a Sigma record, by which no event is found. */
function groupKql({ group_by: groupBy = {} }: AlertState, alert: AlertDocument): string {
  const filters = Object.entries(groupBy).flatMap(([field, [value]]) => (value === undefined || !hasField(alert, field) ? [] : [kqlIs(field, String(value))]));
  return filters.join(' and ');
}

/** Whether a document has a field, whose name may be written with dots or as objects. */
function hasField(document: object, field: string): boolean {
  const members = document as Record<string, unknown>;
  if (members[field] !== undefined) return true;
  return [...field.matchAll(/\./g)].some(({ index }) => {
    const inner = members[field.slice(0, index)];
    return typeof inner === 'object' && inner !== null && hasField(inner, field.slice(index + 1));
  });
}

/** Path of the events of an alert's window that have the values of its group; null if it is of one event. */
export function windowPath(state: AlertState, alert: AlertDocument): string | null {
  const [from, to] = [dateMs(state.window?.start), dateMs(state.window?.end)];
  return from === null || to === null ? null : rangePath(state, alert, from, to);
}

/** Path of the events of an alert's group in the ms of a step; null if the step has no time. */
export function stepPath(state: AlertState, alert: AlertDocument, { time }: AlertStep): string | null {
  const atMs = dateMs(time);
  return atMs === null ? null : rangePath(state, alert, atMs, atMs);
}

const rangePath = (state: AlertState, alert: AlertDocument, fromMs: number, toMs: number) =>
  `/discover?${encodeState({ ...EMPTY_STATE, source: '*', range: absoluteRange(fromMs, toMs), text: groupKql(state, alert) })}`;

/** Path of an alert in the list of all alerts. */
export const alertPath = ({ _index: index, _id: id }: AlertHit): string => `/alerts?${encodeAlerts({ ...EMPTY_ALERTS, status: 'all', open: { index, id } })}`;

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
