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

/** How ticks of an axis over this span are written: the clock within two days, else the date. */
export function tickFormat(spanMs: number, zone: string, locale?: string): (ms: number) => string {
  const parts: Intl.DateTimeFormatOptions = spanMs <= 2 * DAY_MS ? { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } : { month: 'short', day: 'numeric' };
  const format = new Intl.DateTimeFormat(locale, { ...parts, timeZone: zone });
  return (ms) => format.format(ms);
}

/** Widths of buckets that people read well. */
const INTERVALS_MS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400].map((seconds) => seconds * 1000);

/** The smallest of them that cuts a span into at most `buckets_max`. */
export function intervalFor(spanMs: number, bucketsMax: number): number {
  return INTERVALS_MS.find((interval) => spanMs / interval <= bucketsMax) ?? (INTERVALS_MS.at(-1) as number);
}
