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

  it('does not round a small share to zero', () => {
    expect(english.percent(0)).toBe('0.0%');
    expect(english.percent(0.001)).toBe('<0.1%');
    expect(english.percent(33.333)).toBe('33.3%');
  });

  it('follows locale and zone, also with half-hour offsets', () => {
    const instant = Date.UTC(2026, 10, 22, 20, 45, 1, 2);
    expect(english.time(instant)).toBe('Nov 22, 2026, 20:45:01.002');
    expect(makeFormat('Asia/Kolkata', 'en-US').minute(instant)).toBe('Nov 23, 2026, 02:15');
    expect(makeFormat('UTC', 'de-DE').number(1234567)).toBe('1.234.567');
  });

  it('shows invalid dates as such', () => {
    for (const ms of [Number.NaN, -(2 ** 63), 8.64e15 + 1]) expect([english.time(ms), english.minute(ms)]).toEqual(['no date', 'no date']);
  });

  it('adds the offset to ambiguous hours at the end of daylight saving time', () => {
    const berlin = makeFormat('Europe/Berlin', 'en-GB');
    const first = Date.UTC(2026, 9, 25, 0, 30);
    const hours = [-1, 0, 1, 2].map((hour) => berlin.minute(first + hour * 3_600_000).replace('25 Oct 2026, ', ''));
    expect(hours).toEqual(['01:30', '02:30 GMT+2', '02:30 GMT+1', '03:30']);
    expect(makeFormat('UTC', 'en-GB').minute(first)).toBe('25 Oct 2026, 00:30');
    // Lord Howe Island shifts by half an hour. In spring no hour is ambiguous.
    const lordHowe = makeFormat('Australia/Lord_Howe', 'en-GB');
    const halves = [0, 30, 60, 90].map((minutes) => lordHowe.minute(Date.UTC(2026, 3, 4, 14, minutes)).replace('05 Apr 2026, ', ''));
    expect(halves).toEqual(['01:00', '01:30 GMT+11', '01:30 GMT+10:30', '02:00']);
    expect(berlin.minute(Date.UTC(2026, 2, 29, 1, 30))).toBe('29 Mar 2026, 03:30');
  });
});
