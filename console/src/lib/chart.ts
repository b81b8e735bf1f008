import { doubledClock, toWall } from './zoned-time';

/** Values one on top of the other: each series as the sum of itself and all before it. */
export function stack(series: readonly (readonly (number | null)[])[]): number[][] {
  const sums: number[][] = [];
  series.forEach((values, at) => {
    const below = sums[at - 1];
    sums.push(values.map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  });
  return sums;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** From the beginning of the first bucket to the end of the last one, ms. Of a single one `onlyMs` is how wide it is. */
export function spanOf(times: readonly number[], onlyMs: number): [number, number] {
  const [first = 0, second = first + onlyMs] = times;
  return [first, (times.at(-1) ?? first) + Math.max(1, second - first)];
}

/** How ticks that are so far apart are written: clocks within days, with the date where a day begins. */
export function timeTicks(zone: string, locale?: string): (ms: number, apartMs: number) => string {
  const format = (parts: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, { ...parts, hourCycle: 'h23', timeZone: zone });
  const date = format({ month: 'short', day: 'numeric' });
  const month = format({ year: 'numeric', month: 'short' });
  const clock = format({ hour: '2-digit', minute: '2-digit' });
  const seconds = format({ hour: '2-digit', minute: '2-digit', second: '2-digit' });
  const exact = format({ minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });
  const isDoubled = doubledClock(zone);
  const told = format({ hour: '2-digit', minute: '2-digit', timeZoneName: 'shortOffset' });
  return (ms, apartMs) => {
    if (apartMs >= 28 * DAY_MS) return month.format(ms);
    if (apartMs >= DAY_MS || (apartMs >= HOUR_MS && isMidnight(ms, zone))) return date.format(ms);
    if (apartMs >= 60_000 && isDoubled(ms)) return told.format(ms);
    return (apartMs >= 60_000 ? clock : apartMs >= 1000 ? seconds : exact).format(ms);
  };
}

/** Read from the clock, not from its text: there are locales with other digits. */
function isMidnight(ms: number, zone: string): boolean {
  const { hour, minute } = toWall(ms, zone);
  return hour === 0 && minute === 0;
}

/** Widths of buckets that people read well. */
const INTERVALS_MS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400].map((seconds) => seconds * 1000);

/** The smallest of them that cuts a span into at most `buckets_max`. */
export function intervalFor(spanMs: number, bucketsMax: number): number {
  return INTERVALS_MS.find((interval) => spanMs / interval <= bucketsMax) ?? (INTERVALS_MS.at(-1) as number);
}
