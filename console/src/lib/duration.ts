/** Units of durations with their length in ms; `ms` before `s`, which it ends in. */
const UNITS: [string, number][] = [
  ['nanos', 1e-6],
  ['micros', 1e-3],
  ['ms', 1],
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
];

/**
 * Parses a time value of Elasticsearch (`30s`, `2d`, `0`) to ms, as the server does: fractions of a ms are rounded up.
 * Null if it is invalid.
 */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim().toLowerCase();
  if (trimmed === '0') return 0;
  const [unit, unitMs] = UNITS.find(([unit]) => trimmed.endsWith(unit)) ?? [];
  if (unit === undefined || unitMs === undefined) return null;
  const number = trimmed.slice(0, -unit.length).trim();
  return /^\d+$/.test(number) ? Math.ceil(Number(number) * unitMs) : null;
}

/** Prints a duration in the largest unit of which it is a multiple: `90s`. `parseDuration` reads it back. */
export function printDuration(ms: number): string {
  const [unit, unitMs] = UNITS.toReversed().find(([, unitMs]) => unitMs >= 1 && ms % unitMs === 0) ?? ['ms', 1];
  return `${ms / unitMs}${unit}`;
}

/** Returns why a duration is invalid or out of its bounds, which are in ms; null if it is valid, or empty. */
export function durationProblem(text: string, leastMs: number, mostMs: number): string | null {
  if (text.trim() === '') return null;
  const ms = parseDuration(text);
  if (ms === null) return 'A number and a unit, such as 30s, 5m or 1h';
  if (ms < leastMs || ms > mostMs) return leastMs > 0 ? `From ${printDuration(leastMs)} to ${printDuration(mostMs)}` : `At most ${printDuration(mostMs)}`;
  return null;
}
