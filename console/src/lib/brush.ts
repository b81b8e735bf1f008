import { absoluteRange, type TimeRange } from './time-range';

/** Half-open time span. */
export interface Span {
  from_ms: number;
  to_ms: number;
}

/** Returns the index of the bucket that contains an instant, clamped to the first and last bucket. */
export function bucketAt(buckets: readonly Span[], ms: number): number {
  let [low, high] = [0, buckets.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((buckets[middle] as Span).from_ms <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Returns the range of the whole buckets between two indices in any order; null if there are no buckets. */
export function rangeOfBuckets(buckets: readonly Span[], one: number, other: number): TimeRange | null {
  const first = buckets[Math.max(0, Math.min(one, other))];
  const last = buckets[Math.min(buckets.length - 1, Math.max(one, other))];
  return first && last ? absoluteRange(first.from_ms, last.to_ms - 1) : null;
}

/** Returns the range of the buckets that a brush touched: whole bars only. */
export function brushedRange(buckets: readonly Span[], fromMs: number, toMs: number): TimeRange | null {
  return rangeOfBuckets(buckets, bucketAt(buckets, Math.min(fromMs, toMs)), bucketAt(buckets, Math.max(fromMs, toMs)));
}
