import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFormat } from './format';
import { absoluteRange, describeRange, isReversed, parseRelative, relativeText, resolveBound, UNITS, widen } from './time-range';
import { fromWall, parseWallText, toWall, wallText, zoneOffset } from './zoned-time';

const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'Pacific/Apia', 'America/St_Johns'];
const zone = fc.constantFrom(...ZONES);
/** 1990 to 2037: offsets of earlier times have seconds. */
const instant = fc.integer({ min: Date.UTC(1990, 0, 1), max: Date.UTC(2037, 0, 1) });

describe('zoned time', () => {
  it('round-trips wall-clock times except ambiguous hours', () => {
    fc.assert(
      fc.property(instant, zone, (ms, zone) => {
        const back = fromWall(toWall(ms, zone), zone);
        expect(toWall(back, zone)).toEqual(toWall(ms, zone));
        expect(back).toBeLessThanOrEqual(ms);
      }),
    );
  });

  it('supports half-hour and quarter-hour offsets, also in summer time', () => {
    const november = Date.UTC(2026, 10, 22);
    expect(zoneOffset(november, 'Asia/Kolkata') / 60_000).toBe(330);
    expect(zoneOffset(november, 'Asia/Kathmandu') / 60_000).toBe(345);
    expect(zoneOffset(november, 'Australia/Lord_Howe') / 60_000).toBe(660);
    expect(zoneOffset(Date.UTC(2026, 6, 1), 'Australia/Lord_Howe') / 60_000).toBe(630);
  });

  it('shifts skipped hours forward and takes the first of ambiguous ones', () => {
    // Berlin: 29 March 2026 02:00 is 03:00; 25 October 2026 03:00 is 02:00.
    expect(new Date(parseWallText('2026-03-29 02:30:00', 'Europe/Berlin') ?? 0).toISOString()).toBe('2026-03-29T01:30:00.000Z');
    expect(new Date(parseWallText('2026-10-25 02:30', 'Europe/Berlin') ?? 0).toISOString()).toBe('2026-10-25T00:30:00.000Z');
    expect(new Date(parseWallText('2026-11-22 12:00:00.5', 'Asia/Kolkata') ?? 0).toISOString()).toBe('2026-11-22T06:30:00.500Z');
  });

  it('refuses invalid dates', () => {
    for (const text of ['2026-02-30 10:00', '2026-13-01', '2026-01-01 24:00', 'yesterday', '']) expect(parseWallText(text, 'UTC')).toBeNull();
    expect(wallText(Date.UTC(2026, 1, 3, 4, 5, 6), 'Asia/Kolkata')).toBe('2026-02-03 09:35:06');
  });
});

describe('date math', () => {
  const now = Date.parse('2026-03-29T12:34:56.789Z');
  const check = (text: string, zone: string, expectFrom: string, expectTo = expectFrom) => {
    expect(new Date(resolveBound(text, 'from', now, zone) ?? 0).toISOString()).toBe(expectFrom);
    expect(new Date(resolveBound(text, 'to', now, zone) ?? 0).toISOString()).toBe(expectTo);
  };

  it('adds days by calendar and hours by elapsed time', () => {
    check('now-24h', 'Europe/Berlin', '2026-03-28T12:34:56.789Z');
    // One calendar day is 23 hours here.
    check('now-1d', 'Europe/Berlin', '2026-03-28T13:34:56.789Z');
    check('now-1M', 'UTC', '2026-02-28T12:34:56.789Z');
    check('now-1y', 'UTC', '2025-03-29T12:34:56.789Z');
  });

  it('rounds the start down and the end up, in the zone', () => {
    // The day on which Berlin's clocks go forward has 23 hours.
    check('now/d', 'Europe/Berlin', '2026-03-28T23:00:00.000Z', '2026-03-29T21:59:59.999Z');
    check('now/d', 'Asia/Kolkata', '2026-03-28T18:30:00.000Z', '2026-03-29T18:29:59.999Z');
    check('now/h', 'Asia/Kolkata', '2026-03-29T12:30:00.000Z', '2026-03-29T13:29:59.999Z');
    check('now/w', 'UTC', '2026-03-23T00:00:00.000Z', '2026-03-29T23:59:59.999Z');
    check('now-1M/M', 'UTC', '2026-02-01T00:00:00.000Z', '2026-02-28T23:59:59.999Z');
    check('now/y', 'Asia/Kathmandu', '2025-12-31T18:15:00.000Z', '2026-12-31T18:14:59.999Z');
  });

  it('reads instants and leaves other text to the server', () => {
    check('2026-03-29T02:30:00.000Z', 'Europe/Berlin', '2026-03-29T02:30:00.000Z');
    for (const text of ['2026-02-30', '2026-13', '2026-03-29T24:00', '2026-03T10:00', '29.03.2026', 'now-1h+1m', 'tomorrow', '']) expect(resolveBound(text, 'from', now, 'UTC')).toBeNull();
  });

  it('reads dates as the server does', () => {
    check('2026-03-29', 'Europe/Berlin', '2026-03-28T23:00:00.000Z', '2026-03-29T21:59:59.999Z');
    // A missing month or day is the first one, also at the end of a range.
    check('2026-03', 'UTC', '2026-03-01T00:00:00.000Z', '2026-03-01T23:59:59.999Z');
    check('2026', 'Asia/Kathmandu', '2025-12-31T18:15:00.000Z', '2026-01-01T18:14:59.999Z');
    check('2026-03-29T10:15', 'Asia/Kolkata', '2026-03-29T04:45:00.000Z', '2026-03-29T04:45:59.999Z');
    check('2026-03-29T10:15:07.5', 'UTC', '2026-03-29T10:15:07.500Z');
    check('2026-03-29T10:15Z', 'Asia/Kolkata', '2026-03-29T10:15:00.000Z', '2026-03-29T10:15:59.999Z');
    check('2026-03-29T10:15:00-02:30', 'Asia/Kolkata', '2026-03-29T12:45:00.000Z', '2026-03-29T12:45:00.999Z');
  });

  it('reads what it writes', () => {
    const relative = fc.record({ amount: fc.integer({ min: -9999, max: 9999 }), unit: fc.constantFrom(...UNITS), round: fc.option(fc.constantFrom(...UNITS)) });
    fc.assert(
      fc.property(relative, (relative) => {
        const unit = relative.amount === 0 ? 's' : relative.unit;
        expect(parseRelative(relativeText(relative))).toEqual({ ...relative, amount: relative.amount + 0, unit });
      }),
    );
  });

  it('never ends before it starts', () => {
    fc.assert(
      fc.property(instant, zone, fc.constantFrom(...UNITS), fc.integer({ min: -40, max: 40 }), (ms, zone, unit, amount) => {
        const text = relativeText({ amount, unit, round: unit });
        expect(resolveBound(text, 'from', ms, zone)).toBeLessThan(resolveBound(text, 'to', ms, zone) ?? 0);
      }),
    );
  });
});

describe('ranges', () => {
  const format = makeFormat('Asia/Kolkata', 'en-US');

  it('have descriptive names', () => {
    expect(describeRange({ from: 'now-15m', to: 'now' }, format)).toBe('Last 15 minutes');
    expect(describeRange({ from: 'now-3h', to: 'now' }, format)).toBe('Last 3 hours');
    expect(describeRange({ from: 'now-2d', to: 'now-1d/d' }, format)).toBe('2 days ago – 1 day ago, rounded to day');
    const noon = Date.UTC(2026, 10, 22, 6, 30);
    expect(describeRange(absoluteRange(noon, noon + 1), format)).toBe('Nov 22, 2026, 12:00 – Nov 22, 2026, 12:00:00.001');
    expect(describeRange({ from: '2026-03-29', to: 'now' }, format)).toBe('2026-03-29 – now');
  });

  it('may be in ms since the epoch', () => {
    const noon = Date.UTC(2026, 10, 22, 6, 30);
    expect(describeRange({ from: String(noon), to: 'now' }, format)).toBe('Nov 22, 2026, 12:00 – now');
    expect(resolveBound('2026', 'from', 0, 'UTC')).toBe(Date.UTC(2026, 0, 1));
    expect(resolveBound('9999999999999999', 'from', 0, 'UTC')).toBeNull();
  });

  it('are reversed, valid, or unknown to the console', () => {
    const now = Date.UTC(2026, 10, 22);
    expect(isReversed({ from: 'now', to: 'now-7d' }, now, 'UTC')).toBe(true);
    expect(isReversed({ from: 'now/d', to: 'now/d' }, now, 'UTC')).toBe(false);
    expect(isReversed({ from: '2026-12-31', to: '2021-01-01' }, now, 'UTC')).toBe(true);
    expect(isReversed({ from: '2026-13-45', to: 'now' }, now, 'UTC')).toBeNull();
  });

  it('widen to twice their length, but not into the future', () => {
    expect(widen(1000, 3000, 10_000)).toEqual(absoluteRange(0, 4000));
    expect(widen(1000, 3000, 3000)).toEqual(absoluteRange(-1000, 3000));
    expect(widen(1000, 3000, 0)).toEqual(absoluteRange(0, 4000));
  });
});
