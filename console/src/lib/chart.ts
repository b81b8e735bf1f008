import { doubledClock, toWall } from './zoned-time';

/** Stacks series: each becomes the sum of itself and all previous ones. */
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

/**
 * Returns the start of the first bucket and the end of the last one, in ms. `onlyMs` is the width of a single bucket.
 */
export function spanOf(times: readonly number[], onlyMs: number): [number, number] {
  const [first = 0, second = first + onlyMs] = times;
  return [first, (times.at(-1) ?? first) + Math.max(1, second - first)];
}

/** Returns a tick formatter: it picks time or date by the distance of the ticks, and the date at midnight. */
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

/** Reads the clock, not its formatted text: some locales have other digits. */
function isMidnight(ms: number, zone: string): boolean {
  const { hour, minute } = toWall(ms, zone);
  return hour === 0 && minute === 0;
}

/** Bucket widths that are easy to read. */
const INTERVALS_MS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400].map((seconds) => seconds * 1000);

/** Returns the smallest interval that divides a span into at most `bucketsMax` buckets. */
export function intervalFor(spanMs: number, bucketsMax: number): number {
  return INTERVALS_MS.find((interval) => spanMs / interval <= bucketsMax) ?? (INTERVALS_MS.at(-1) as number);
}
