import type { Analysis } from '../../api/repositories';

/** One kind of request of an analysis. Latencies are milliseconds. */
export interface LatencyRow {
  kind: string;
  count: number;
  bytes: number;
  bytesPerSecond: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** In the order in which the report has them: writes, then reads, then the rest. */
export function latencyRows({ requests }: Pick<Analysis, 'requests'>): LatencyRow[] {
  return Object.entries(requests).map(([kind, { count, total_size_bytes: bytes, bytes_per_second_each: bytesPerSecond, latency_ms: latency }]) => ({
    kind: kind.replaceAll('_', ' '),
    count,
    bytes,
    bytesPerSecond,
    p50: latency['50.0'] ?? 0,
    p90: latency['90.0'] ?? 0,
    p99: latency['99.0'] ?? 0,
    max: latency['100.0'] ?? 0,
  }));
}

export interface LogScale {
  /** Powers of ten, from the first to the last. */
  ticks: number[];
  /** Where a value lies, from 0 to 100. */
  at: (value: number) => number;
}

/** Latencies of memory and of the other side of the world on one axis: whole decades around all of them. */
export function logScale(values: number[]): LogScale {
  const seen = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...seen, 1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...seen, 1))), low + 1);
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at)),
    at: (value) => (value <= 0 ? 0 : Math.min(100, Math.max(0, ((Math.log10(value) - low) / (high - low)) * 100))),
  };
}
