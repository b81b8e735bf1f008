import { describe, expect, it } from 'vitest';
import { makeFormat } from './format';

describe('makeFormat', () => {
  const english = makeFormat('UTC', 'en-US');

  it('writes sizes and durations in the largest fitting unit', () => {
    expect(english.bytes(0)).toBe('0 B');
    expect(english.bytes(1536)).toBe('1.5 KiB');
    expect(english.bytes(3 * 1024 ** 4)).toBe('3 TiB');
    expect(english.duration(12.4)).toBe('12 ms');
    expect(english.duration(90_000)).toBe('1.5 min');
    expect(english.duration(36 * 3_600_000)).toBe('1.5 d');
  });

  it('never shows a small share as none', () => {
    expect(english.percent(0)).toBe('0.0%');
    expect(english.percent(0.001)).toBe('<0.1%');
    expect(english.percent(33.333)).toBe('33.3%');
  });

  it('follows locale and zone, also those half an hour off', () => {
    const instant = Date.UTC(2026, 10, 22, 20, 45, 1, 2);
    expect(english.time(instant)).toBe('Nov 22, 2026, 20:45:01.002');
    expect(makeFormat('Asia/Kolkata', 'en-US').minute(instant)).toBe('Nov 23, 2026, 02:15');
    expect(makeFormat('UTC', 'de-DE').number(1234567)).toBe('1.234.567');
  });

  it('says so when there is no date', () => {
    for (const ms of [Number.NaN, -(2 ** 63), 8.64e15 + 1]) expect([english.time(ms), english.minute(ms)]).toEqual(['no date', 'no date']);
  });
});
