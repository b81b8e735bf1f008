import { absoluteRange, type TimeRange } from './time-range';

/** A span of time; its end is not part of it. */
export interface Span {
  from_ms: number;
  to_ms: number;
}

/** The bucket that an instant falls into; before the first the first one, after the last the last one. */
export function bucketAt(buckets: readonly Span[], ms: number): number {
  let [low, high] = [0, buckets.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((buckets[middle] as Span).from_ms <= ms) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The range of the whole buckets from one to another, whichever comes first; null: there are none. */
export function rangeOfBuckets(buckets: readonly Span[], one: number, other: number): TimeRange | null {
  const first = buckets[Math.max(0, Math.min(one, other))];
  const last = buckets[Math.min(buckets.length - 1, Math.max(one, other))];
  return first && last ? absoluteRange(first.from_ms, last.to_ms - 1) : null;
}

/** The range of the buckets that a brush touched: what is seen as one bar is not cut. */
export function brushedRange(buckets: readonly Span[], fromMs: number, toMs: number): TimeRange | null {
  return rangeOfBuckets(buckets, bucketAt(buckets, Math.min(fromMs, toMs)), bucketAt(buckets, Math.max(fromMs, toMs)));
}
