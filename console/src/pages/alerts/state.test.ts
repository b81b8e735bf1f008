import { expect, test } from 'vitest';
import { type AlertsState, decodeState, EMPTY_STATE, encodeState } from './state';

test('the state survives its URL', () => {
  const state: AlertsState = {
    range: { from: 'now-1d/d', to: '2026-01-01T00:00:00.000Z' },
    status: 'all',
    severities: ['high', 'critical'],
    text: 'host.name: "a, b"',
    refreshMs: 0,
    open: { index: '.ds-.alerts-default-000001', id: 'a/b' },
  };
  expect(decodeState(encodeState(state))).toEqual(state);
});

test('defaults are not in the URL, and invalid parameters have them', () => {
  expect(encodeState(EMPTY_STATE)).toBe('');
  expect(decodeState('')).toEqual(EMPTY_STATE);
  expect(decodeState('from=now-1d&status=lost&severity=worst,low&auto=5&index=x')).toEqual({ ...EMPTY_STATE, severities: ['low'] });
});
