import type { Pipeline } from '../../api/event-pipelines';

/** Events read by each pipeline until an instant. */
export interface Reading {
  atMs: number;
  read: Map<string, number>;
}

/** Takes the counts of all pipelines at an instant. */
export const readingOf = (pipelines: Pipeline[], atMs: number): Reading => ({
  atMs,
  read: new Map(pipelines.flatMap(({ id, stats }) => (stats ? [[id, stats.since_start.read] as const] : []))),
});

/**
 * Events per second of a pipeline between two readings. Null without two readings, and if the count went back: the server or
 * the pipeline was started again in between.
 */
export function rateOf(id: string, before: Reading | null, now: Reading): number | null {
  const [from, to] = [before?.read.get(id), now.read.get(id)];
  if (!before || from === undefined || to === undefined || to < from || now.atMs <= before.atMs) return null;
  return ((to - from) * 1000) / (now.atMs - before.atMs);
}
