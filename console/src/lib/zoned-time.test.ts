import { expect, it } from 'vitest';
import { parseWallText, parseWallTextNear, wallText } from './zoned-time';

it('keeps an instant of an ambiguous hour', () => {
  const zone = 'Europe/Berlin';
  const [first, second] = [Date.UTC(2026, 9, 25, 0, 30, 5, 7), Date.UTC(2026, 9, 25, 1, 30, 5, 7)];
  const text = wallText(second, zone);
  expect(text).toBe(wallText(first, zone));
  expect([first, second].map((ms) => parseWallTextNear(text, ms, zone))).toEqual([first - 7, second - 7]);
  expect(parseWallTextNear('2026-10-25 04:00:00', second, zone)).toBe(parseWallText('2026-10-25 04:00:00', zone));
  expect(parseWallTextNear(text, null, zone)).toBe(first - 7);
});
