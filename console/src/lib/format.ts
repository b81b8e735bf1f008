import { doubledClock } from './zoned-time';

/**
 * Formatter of numbers, sizes and times in the browser's locale and a selected time zone.
 * The locale `undefined` is that of the browser; tests set one.
 */
export interface Format {
  locale: string | undefined;
  /** IANA name of the displayed time zone. */
  zone: string;
  number(value: number): string;
  /** 1,234,567 as 1.2M, for tight spaces. */
  compact(value: number): string;
  /** 12.3%; small shares are not rounded to zero. */
  percent(value: number): string;
  bytes(value: number): string;
  /** Duration in one unit: 12 ms, 3.4 s, 5 min. */
  duration(ms: number): string;
  /** Date and time to the millisecond. */
  time(ms: number): string;
  /** Date and time to the minute, for headings and labels. */
  minute(ms: number): string;
}

/** Largest instant that JavaScript's `Date` supports. */
const INSTANT_MS_MAX = 8.64e15;

/** Whether `ms` is a valid instant. The sort value of a missing date is the smallest integer, which is not. */
export const isInstant = (ms: number): boolean => Math.abs(ms) <= INSTANT_MS_MAX;

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function makeFormat(zone: string, locale?: string): Format {
  const number = new Intl.NumberFormat(locale);
  const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });
  const fraction = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  const percent = new Intl.NumberFormat(locale, { maximumFractionDigits: 1, minimumFractionDigits: 1 });
  const day = { year: 'numeric', month: 'short', day: '2-digit' } as const;
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const;
  const isDoubled = doubledClock(zone);
  const offset = new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName: 'shortOffset' });
  /** Appends the UTC offset to a time that the clock shows twice. */
  const told = (text: string, ms: number) => (isDoubled(ms) ? `${text} ${offset.formatToParts(ms).find(({ type }) => type === 'timeZoneName')?.value ?? ''}` : text);
  const time = new Intl.DateTimeFormat(locale, {
    ...day,
    ...clock,
    second: '2-digit',
    fractionalSecondDigits: 3,
    timeZone: zone,
  });
  const minute = new Intl.DateTimeFormat(locale, { ...day, ...clock, timeZone: zone });

  return {
    locale,
    zone,
    number: (value) => number.format(value),
    compact: (value) => compact.format(value),
    percent: (value) => (value > 0 && value < 0.1 ? `<${percent.format(0.1)}%` : `${percent.format(value)}%`),
    bytes: (value) => {
      let amount = value;
      let unit = 0;
      while (Math.abs(amount) >= 1024 && unit < BYTE_UNITS.length - 1) {
        amount /= 1024;
        unit += 1;
      }
      return `${fraction.format(amount)} ${BYTE_UNITS[unit] ?? 'B'}`;
    },
    duration: (ms) => {
      if (ms < 1000) return `${number.format(Math.round(ms))} ms`;
      if (ms < 60_000) return `${fraction.format(ms / 1000)} s`;
      if (ms < 3_600_000) return `${fraction.format(ms / 60_000)} min`;
      if (ms < 86_400_000) return `${fraction.format(ms / 3_600_000)} h`;
      return `${fraction.format(ms / 86_400_000)} d`;
    },
    time: (ms) => (isInstant(ms) ? told(time.format(ms), ms) : 'no date'),
    minute: (ms) => (isInstant(ms) ? told(minute.format(ms), ms) : 'no date'),
  };
}
