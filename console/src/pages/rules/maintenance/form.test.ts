import { expect, test } from 'vitest';
import type { MaintenanceWindow, StoredWindow, WindowStatus } from '../../../api/maintenance-windows';
import { makeFormat } from '../../../lib/format';
import { repeatText, scopeText, whenText, windowState } from './describe';
import { newWindow, windowDefinition, windowInput, windowMissing, windowProblems } from './form';
import { instantMs, localText } from './local-time';
import { endedNow } from './occurrences';

const BERLIN = 'Europe/Berlin';
const STORED: MaintenanceWindow[] = [
  { title: 'Patches', start: '2026-12-01T22:00', duration: '4h', timezone: BERLIN, repeat: { every: 'week', weekdays: ['tu', 'th'] }, query: 'host.name: web*' },
  { title: 'x', start: 1_700_000_000_123, end: '2024-01-01T00:00:00.500+05:00', tenant: 'acme', rules: ['a', 'b'], min_severity: 'high' },
  { title: 'x', start: '2026-01-31', duration: '1d', timezone: 'UTC', repeat: { every: 'month', until: '2026-12-31T00:00:00Z' } },
  { title: 'x', start: '2026-01-01T08:00:30', duration: '90m', repeat: { every: 'day', count: 5 }, query: { term: { a: 1 } } },
  { title: 'x', start: '1700000000000', duration: '1h', query: 'a:b', language: 'lucene', timezone: '+01:00' },
];

test.each(STORED)('the form keeps a definition to the ms: %j', (definition) => {
  const input = windowInput(definition);
  expect(windowDefinition(input, definition)).toEqual(definition);
  expect([windowMissing(input), windowProblems(input)]).toEqual([[], {}]);
});

test('times are those of the zone', () => {
  const [, stored] = STORED as [MaintenanceWindow, MaintenanceWindow];
  const input = windowInput({ ...stored, timezone: BERLIN });
  expect([input.start, input.end]).toEqual(['2023-11-14T23:13:20', '2023-12-31T20:00']);
  expect(windowDefinition({ ...input, start: '2023-11-15T01:00' }, { ...stored, timezone: BERLIN })).toMatchObject({ start: '2023-11-15T01:00', end: stored.end, timezone: BERLIN });
  // In another zone the same local time is another instant.
  expect(windowDefinition({ ...input, zone: 'Asia/Tokyo' }, { ...stored, timezone: BERLIN })).toMatchObject({ start: '2023-11-14T23:13:20', end: '2023-12-31T20:00', timezone: 'Asia/Tokyo' });
  expect(newWindow(Date.UTC(2026, 6, 1, 10, 20), BERLIN).start).toBe('2026-07-01T13:00');
});

test.each([
  ['2026-07-01T10:00', BERLIN, '2026-07-01T08:00:00.000Z'],
  ['2026-07-01', 'UTC', '2026-07-01T00:00:00.000Z'],
  ['2026-07-01T10:00:00+02:00', 'UTC', '2026-07-01T08:00:00.000Z'],
  [1_700_000_000_000, BERLIN, '2023-11-14T22:13:20.000Z'],
  ['2026-07-01T10:00', '-03:30', '2026-07-01T13:30:00.000Z'],
  ['now', 'UTC', null],
  ['2026', 'UTC', null],
  ['2026-07-01T10:00', 'Mars/Phobos', null],
])('%j in %s is %j', (value, zone, iso) => {
  const ms = instantMs(value, zone);
  expect(ms === null ? null : new Date(ms).toISOString()).toBe(iso);
});

test('a date that is none is empty, so that the form asks for it', () => {
  expect(localText('soon', 'UTC')).toBe('');
  expect(localText(1_700_000_000_000, 'Mars/Phobos')).toBe('');
  expect(windowMissing({ ...newWindow(0, 'UTC'), start: '', duration: ' ' })).toEqual(['Title', 'Start', 'Length']);
  expect(windowMissing({ ...newWindow(0, 'UTC'), title: 'x', has: 'end', every: 'day', stops: 'until' })).toEqual(['End', 'Last start']);
  expect(windowMissing({ ...newWindow(0, 'UTC'), title: 'x', every: 'day', stops: 'count' })).toEqual(['Number of times']);
});

test.each([
  [{ duration: '367d' }, 'duration', 'At most'],
  [{ duration: '0' }, 'duration', 'From 1ms'],
  [{ every: 'day', duration: '25h' }, 'duration', '1d'],
  [{ every: 'month', duration: '29d' }, 'duration', '28d'],
  [{ has: 'end', end: '2026-01-01T00:00' }, 'end', 'After the start'],
  [{ has: 'end', every: 'week', end: '2026-01-09T00:00' }, 'end', 'At most 7 days'],
  [{ every: 'day', stops: 'until', until: '2025-12-31T00:00' }, 'until', 'Not before'],
  [{ every: 'day', stops: 'count', count: 0 }, 'count', 'From 1 to 1,000'],
  [{ query: { text: '{', language: 'dsl' } }, 'query', 'JSON'],
] as [Partial<ReturnType<typeof newWindow>>, string, string][])('what the server would refuse is named: %j', (input, place, reason) => {
  const problems = windowProblems({ ...newWindow(0, 'UTC'), start: '2026-01-01T00:00', ...input });
  expect(Object.keys(problems)).toEqual([place]);
  expect(Object.values(problems)[0]).toContain(reason.replace('At most', ''));
});

test('weekdays are in order, and none of a month', () => {
  const input = { ...newWindow(0, 'UTC'), title: 'x', start: '2026-01-01T00:00', every: 'week' as const, weekdays: ['su', 'mo'] as const };
  expect(windowDefinition({ ...input, weekdays: [...input.weekdays] }, null).repeat).toEqual({ every: 'week', weekdays: ['mo', 'su'] });
  expect(windowDefinition({ ...input, every: 'month', weekdays: [...input.weekdays] }, null).repeat).toEqual({ every: 'month' });
});

test('a window is described', () => {
  const format = makeFormat('UTC', 'en-GB');
  const [patches, , monthly, daily] = STORED as [MaintenanceWindow, MaintenanceWindow, MaintenanceWindow, MaintenanceWindow];
  expect(whenText(patches, format)).toBe('2026-12-01 22:00 for 4 h, every Tue, Thu (Europe/Berlin)');
  expect(repeatText({ ...patches, repeat: { every: 'week' } })).toBe('every Tue');
  expect(repeatText(monthly)).toBe('every month on day 31, until 2026-12-31 00:00');
  expect(repeatText(daily)).toBe('every day, 5 times');
  const name = (id: string) => ({ a: 'Port scan' })[id] ?? id;
  expect(scopeText(patches, name)).toBe('host.name: web*');
  expect(scopeText({ title: 'x', start: 0, tenant: 'acme', rules: ['a', 'b', 'c', 'd'], min_severity: 'high' }, name)).toBe('tenant acme; rules Port scan, b, c and 1 more; severity high or above');
  expect(scopeText({ title: 'x', start: 0, min_severity: 'informational' }, name)).toBe('all alerts');
});

test.each([
  [{ active: true, active_until: 'a', next_start: 'b' }, 'running'],
  [{ active: false, active_until: null, next_start: 'b' }, 'upcoming'],
  [{ active: false, active_until: null, next_start: null }, 'finished'],
  [{ active: false, error: 'x' }, 'invalid'],
] as [WindowStatus, string][])('the state of %j is %s', (status, state) => expect(windowState(status)).toBe(state));

const NOW = Date.parse('2026-03-27T23:00:00Z');
const running = (definition: MaintenanceWindow, next: string | null): StoredWindow => ({ ...definition, status: { active: true, active_until: '2026-03-28T02:30:00.000+01:00', next_start: next } });

test('a window that occurs once ends now', () => {
  const once = { title: 'x', start: '2026-03-27T22:30', duration: '4h', timezone: BERLIN, tenant: 'acme' };
  expect(endedNow(running(once, null), NOW)).toEqual({ title: 'x', start: '2026-03-27T22:30', end: '2026-03-27T23:00:00.000Z', timezone: BERLIN, tenant: 'acme' });
});

test('a window that repeats starts again at its next occurrence, at the time of its first one', () => {
  // The clocks skip 02:30 on the 29th, so that the occurrence of this day starts at 03:30.
  const nightly: MaintenanceWindow = { title: 'x', start: '2026-03-20T02:30', end: '2026-03-20T03:00', timezone: BERLIN, repeat: { every: 'day', count: 20 } };
  expect(endedNow(running(nightly, '2026-03-29T03:30:00.000+02:00'), NOW)).toEqual({ title: 'x', start: '2026-03-29T02:30', duration: '30m', timezone: BERLIN, repeat: { every: 'day', count: 11 } });
});

test.each([
  [{ every: 'week', weekdays: ['tu', 'fr'], count: 10 }, '2026-03-17T22:30', '2026-03-31T22:30:00+02:00', 6],
  [{ every: 'week', count: 3 }, '2026-03-20T22:30', '2026-04-03T22:30:00+02:00', 1],
  [{ every: 'month', count: 5 }, '2026-01-31T22:30', '2026-05-31T22:30:00+02:00', 3],
] as [MaintenanceWindow['repeat'], string, string, number][])('what has occurred is no longer counted: %j', (repeat, start, next, count) => {
  const ended = endedNow(running({ title: 'x', start, duration: '4h', timezone: BERLIN, ...(repeat && { repeat }) }, next), NOW);
  expect(ended).toMatchObject({ start: next.slice(0, 16), duration: '4h', repeat: { every: repeat?.every, count } });
});

test('the last occurrence of a window that repeats ends now', () => {
  const last: MaintenanceWindow = { title: 'x', start: '2026-03-20T22:30', duration: '4h', timezone: BERLIN, repeat: { every: 'day', until: '2026-03-27T23:00' } };
  expect(endedNow(running(last, null), NOW)).toEqual({ title: 'x', start: '2026-03-27T21:30:00.000Z', end: '2026-03-27T23:00:00.000Z', timezone: BERLIN });
});
