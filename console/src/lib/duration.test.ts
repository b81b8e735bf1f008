import { expect, test } from 'vitest';
import { durationProblem, parseDuration, printDuration } from './duration';

test.each([
  ['0', 0],
  ['30s', 30_000],
  [' 5 M ', 300_000],
  ['100ms', 100],
  ['2d', 172_800_000],
  ['1h', 3_600_000],
  ['1500micros', 2],
  ['10nanos', 1],
  ['', null],
  ['5', null],
  ['1.5h', null],
  ['-1m', null],
  ['soon', null],
  ['1w', null],
])('%j is %j ms, as the server reads it', (text, ms) => expect(parseDuration(text)).toBe(ms));

test.each([0, 1, 999, 1000, 90_000, 300_000, 3_600_000, 7 * 86_400_000])('%d ms survive printing', (ms) => expect(parseDuration(printDuration(ms))).toBe(ms));

test('a duration has its bounds', () => {
  expect(durationProblem('', 1000, 86_400_000)).toBeNull();
  expect(durationProblem('1s', 1000, 86_400_000)).toBeNull();
  expect(durationProblem('24h', 1000, 86_400_000)).toBeNull();
  expect(durationProblem('999ms', 1000, 86_400_000)).toBe('From 1s to 1d');
  expect(durationProblem('25h', 0, 86_400_000)).toBe('At most 1d');
  expect(durationProblem('soon', 0, 1)).toContain('5m');
});
