import type { Analysis } from '../../api/repositories';

/** One request type of an analysis. Latencies are milliseconds. */
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

/** Converts a report to rows, in the order of the report: writes, reads, then the rest. */
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
  /** Position of a value, from 0 to 100. */
  at: (value: number) => number;
}

/** Logarithmic scale in whole decades around all values, so that local and remote latencies fit on one axis. */
export function logScale(values: number[]): LogScale {
  const seen = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...seen, 1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...seen, 1))), low + 1);
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at)),
    at: (value) => (value <= 0 ? 0 : Math.min(100, Math.max(0, ((Math.log10(value) - low) / (high - low)) * 100))),
  };
}
