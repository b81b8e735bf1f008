import { expect, test } from 'vitest';
import type { AlertState } from '../../api/alerts';
import { decodeState } from '../discover/state';
import { alertPath, eventFields, eventPath, groupText, stepPath, surroundingPath, webAddress, windowPath } from './links';

const STATE: AlertState = { status: 'open', severity: 'high', event: { index: '.ds-logs-000001', id: 'x/1', time: '2026-01-01T00:10:00Z' } };

test('an alert leads to its event and to the events around it', () => {
  expect(eventPath(STATE)).toBe('/discover/event?index=.ds-logs-000001&id=x%2F1');
  const { state } = decodeState(surroundingPath(STATE)?.split('?')[1] ?? '');
  expect(state).toMatchObject({ source: '.ds-logs-000001', range: { from: '2026-01-01T00:05:00.000Z', to: '2026-01-01T00:15:00.000Z' } });
});

test('an event that was rejected or not stored has no link', () => {
  expect(eventPath({ ...STATE, event: { index: 'dead-letters', time: '2026-01-01T00:10:00Z' } })).toBeNull();
  expect(surroundingPath({ ...STATE, event: { index: 'dead-letters', time: null } })).toBeNull();
  expect(surroundingPath({ status: 'open', severity: 'low' })).toBeNull();
});

const stateOf = (path: string | null) => decodeState(path?.split('?')[1] ?? '').state;

test('an alert of a window leads to its events', () => {
  const alert = { '@timestamp': 't', 'source.ip': '10.0.0.1', user: { name: 'a "b"' } };
  expect(windowPath(STATE, alert)).toBeNull();
  const window = { start: '2026-01-01T00:00:00Z', end: '2026-01-01T00:01:00Z', events: 30, value: 30 };
  const state = { ...STATE, window, group_by: { 'source.ip': ['10.0.0.1'], 'user.name': ['a "b"'], 'host.name': [] } };
  expect(stateOf(windowPath(state, alert))).toMatchObject({ source: '*', text: 'source.ip: "10.0.0.1" and user.name: "a \\"b\\""', range: { from: '2026-01-01T00:00:00.000Z', to: '2026-01-01T00:01:00.000Z' } });
});

test('a step of a sequence leads to the events of its ms', () => {
  const state = { ...STATE, group_by: { 'user.name': ['ann'] } };
  const path = stepPath(state, { '@timestamp': 't', user: { name: 'ann' } }, { name: 'failure', time: '2026-01-01T00:10:00.123Z' });
  expect(stateOf(path)).toMatchObject({ text: 'user.name: "ann"', range: { from: '2026-01-01T00:10:00.123Z', to: '2026-01-01T00:10:00.123Z' } });
  expect(stepPath(state, { '@timestamp': 't' }, { name: 'failure', time: '' })).toBeNull();
});

test('the fields of a Sigma record, which no stored event has, are no filter', () => {
  const state = { ...STATE, group_by: { TargetUserName: ['ann'], 'Event.User': ['bob'] }, window: { start: '2026-01-01T00:00:00Z', end: '2026-01-01T00:01:00Z' } };
  expect(stateOf(windowPath(state, { '@timestamp': 't', Event: { Other: 1 } })).text).toBe('');
});

test('an alert has a path, also if it is closed', () => {
  expect(alertPath({ _index: '.ds-x', _id: 'a/1', _source: { '@timestamp': 't' } })).toBe('/alerts?status=all&index=.ds-x&id=a%2F1');
});

test('only web addresses become links', () => {
  expect(webAddress('https://attack.mitre.org')).toBe('https://attack.mitre.org');
  expect(webAddress('javascript:alert(1)')).toBeNull();
  expect(webAddress('Internal runbook 7')).toBeNull();
});

test('the values of a group are one line', () => {
  expect(groupText({ ...STATE, group_by: { 'host.name': ['a', 'b'], 'user.name': [] } })).toBe('host.name: a, b; user.name: –');
  expect(groupText(STATE)).toBe('');
});

test('the event is the alert without what the rule added', () => {
  expect(eventFields({ '@timestamp': 't', rule: { id: 'r' }, firn: { alert: STATE }, user: { name: 'ann' } })).toEqual({ '@timestamp': '2026-01-01T00:10:00Z', user: { name: 'ann' } });
  expect(eventFields({ '@timestamp': 't', firn: {} })).toEqual({ '@timestamp': 't' });
});
