import type { Cardinality, DiscoverEvent, Done, Estimate, Histogram, Opened, Sample, ShardsDone, StageName, UnknownField } from '../../api/discover';
import { errorFromObject } from '../../api/errors';
import type { ShardFailure } from '../../components/Partial';

/** Shards that are missing from a response. */
export interface Incomplete {
  failures: ShardFailure[];
  failed: number;
  total: number;
  timedOut: boolean;
}

/** State of one stage. */
export interface Stage<Result> {
  status: 'idle' | 'loading' | 'partial' | 'done' | 'failed' | 'estimate' | 'cancelled';
  /** Result of the current request or, if `stale`, of the previous one. */
  result: Result | null;
  stale: boolean;
  progress: ShardsDone | null;
  /** Set if the stage is done but does not cover all shards. */
  incomplete: Incomplete | null;
  tookMs: number | null;
  cached: boolean;
  error: unknown;
  estimate: Estimate | null;
  /** The stage runs in a separate request and does not end with the others. */
  beside: boolean;
}

/** State of the page's stages. Top values have separate runs. */
export interface Run {
  /** `opened` event of the current request; of the previous one until the server has `answered`. */
  opened: Opened | null;
  answered: boolean;
  /** Key of the current request, and key of the request of `opened`. They differ until the server has `answered`. */
  askedKey: string | null;
  answeredKey: string | null;
  /** The common request of the stages has not ended. */
  streaming: boolean;
  /** Some stage has not ended. */
  running: boolean;
  /** Error of the request as a whole. */
  error: unknown;
  /** Latest total, if counted after the response. */
  counted: Sample['total'] | null;
  /** Fields of the query that do not exist. */
  unknownFields: UnknownField[];
  sample: Stage<Sample>;
  histogram: Stage<Histogram>;
  cardinality: Stage<Cardinality>;
}

type PageStage = 'sample' | 'histogram' | 'cardinality';
const PAGE_STAGES: PageStage[] = ['sample', 'histogram', 'cardinality'];

const IDLE: Stage<never> = { status: 'idle', result: null, stale: false, progress: null, incomplete: null, tookMs: null, cached: false, error: null, estimate: null, beside: false };

/** Stage that has just been requested. */
export const LOADING: Stage<never> = { ...IDLE, status: 'loading' };

export const IDLE_RUN: Run = { opened: null, answered: false, askedKey: null, answeredKey: null, streaming: false, running: false, error: null, counted: null, unknownFields: [], sample: IDLE, histogram: IDLE, cardinality: IDLE };

export type RunAction =
  | { type: 'start'; key: string; stages: StageName[] }
  /** Starts one stage in a separate request. */
  | { type: 'start_stage'; stage: StageName }
  | { type: 'event'; event: DiscoverEvent }
  /** Newer counts, which replace those of the response. */
  | { type: 'recounted'; sample: Done | null; histogram: Done | null }
  /** The connection failed. */
  | { type: 'broken'; error: unknown }
  | { type: 'cancelled' };

export function reduceRun(run: Run, action: RunAction): Run {
  const next = reduced(run, action);
  const running = next.streaming || PAGE_STAGES.some((name) => isOpen(next[name]));
  return next.running === running ? next : { ...next, running };
}

function reduced(run: Run, action: RunAction): Run {
  switch (action.type) {
    case 'start':
      return start(run, action);
    case 'start_stage':
      return action.stage === 'top_values' ? run : { ...run, [action.stage]: { ...LOADING, beside: true } };
    case 'event':
      return withEvent(run, action.event);
    case 'recounted': {
      const next = { ...run, counted: countedBy(run, action.sample) ?? run.counted };
      return action.histogram ? withEvent(next, action.histogram) : next;
    }
    case 'broken':
      // Without any response there is one error for the page; otherwise each unfinished stage gets the error.
      if (!run.answered) return { ...mapOpen(run, (stage) => ({ ...stage, status: 'idle' })), streaming: false, error: action.error };
      return { ...mapOpen(run, (stage) => ended(stage, action.error)), streaming: false };
    case 'cancelled':
      return { ...mapOpen(run, (stage) => ({ ...stage, status: 'cancelled' })), streaming: false };
  }
}

/**
 * Returns the number of events in the bars if it differs from the total; null if it is equal or not known yet. They differ
 * if events arrive between the two counts, or if an event has several timestamps and so is in several bars.
 */
export function barsApart(sample: Stage<Sample>, histogram: Stage<Histogram>, counted: Sample['total'] | null): number | null {
  const total = counted ?? sample.result?.total;
  const known = [sample, histogram].every((stage) => stage.status === 'done' && !stage.incomplete);
  if (!known || !histogram.result || total?.relation !== 'eq') return null;
  const sum = histogram.result.buckets.reduce((sum, { count }) => sum + count, 0);
  return sum === total.value ? null : sum;
}

/** Returns the new total, unless it lacks shards that the previous one had. */
function countedBy({ sample }: Run, done: Done | null): Sample['total'] | null {
  if (!done || sample.status !== 'done' || (done.partial && !sample.incomplete)) return null;
  return (done.result as Sample).total;
}

/** Starts a request: previous results stay visible until new ones arrive. */
function start(run: Run, { key, stages }: Extract<RunAction, { type: 'start' }>): Run {
  const next: Run = { ...run, askedKey: key, answered: false, streaming: true, error: null, counted: null, unknownFields: [] };
  for (const name of PAGE_STAGES) {
    if (!stages.includes(name)) continue;
    const { result } = run[name];
    Object.assign(next, { [name]: { ...IDLE, status: 'loading', result, stale: result !== null } });
  }
  return next;
}

function withEvent(run: Run, event: DiscoverEvent): Run {
  switch (event.event) {
    case 'opened':
      return { ...run, opened: event, answered: true, answeredKey: run.askedKey };
    case 'hints':
      return { ...run, unknownFields: event.unknown_fields };
    case 'end':
      // Otherwise a stage without a final event would load forever.
      return { ...mapOpen(run, (stage) => ended(stage, new Error('the server ended the response without a result'))), streaming: false };
    default: {
      const name = event.stage;
      if (name === 'top_values') return run;
      const stage = withStageEvent(run[name] as Stage<unknown>, event);
      return { ...run, [name]: stage };
    }
  }
}

/** Event of one stage. */
export type StageEvent = Exclude<DiscoverEvent, { event: 'opened' | 'hints' | 'end' }>;

/** Applies an event to its stage. */
export function withStageEvent<Result>(stage: Stage<Result>, event: StageEvent): Stage<Result> {
  switch (event.event) {
    case 'progress':
      return { ...stage, progress: event.shards };
    case 'partial':
      return { ...stage, status: 'partial', result: event.result as Result, stale: false, progress: event.shards };
    case 'done':
      return { ...stage, status: 'done', result: event.result as Result, stale: false, progress: null, incomplete: incomplete(event), tookMs: event.took_ms, cached: event.cached };
    case 'estimate':
      return { ...stage, status: 'estimate', result: null, stale: false, progress: null, estimate: event };
    case 'failed':
      return { ...stage, status: 'failed', result: null, stale: false, progress: null, tookMs: event.took_ms, error: errorFromObject(event.error, event.status) };
  }
}

/** Fails an unfinished stage when the common request ends. */
const ended = (stage: Stage<unknown>, error: unknown): Stage<unknown> => (stage.beside ? stage : { ...stage, status: 'failed', error });

export function incomplete({ partial, timed_out: timedOut, shards }: Done): Incomplete | null {
  return partial ? { failures: shards.failures ?? [], failed: shards.failed, total: shards.total, timedOut } : null;
}

const isOpen = ({ status }: Stage<unknown>) => status === 'loading' || status === 'partial';

/** Maps the unfinished stages. */
function mapOpen(run: Run, change: (stage: Stage<unknown>) => Stage<unknown>): Run {
  const next = { ...run };
  for (const name of PAGE_STAGES) {
    const stage = run[name] as Stage<unknown>;
    if (isOpen(stage)) Object.assign(next, { [name]: change(stage) });
  }
  return next;
}
