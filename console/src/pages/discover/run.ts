import type { Cardinality, DiscoverEvent, Done, Estimate, Histogram, Opened, Sample, ShardsDone, StageName, UnknownField } from '../../api/discover';
import { errorFromObject } from '../../api/errors';
import type { ShardFailure } from '../../components/Partial';

/** What an answer leaves out. */
export interface Incomplete {
  failures: ShardFailure[];
  failed: number;
  total: number;
  timedOut: boolean;
}

/** What is known of one stage. */
export interface Stage<Result> {
  status: 'idle' | 'loading' | 'partial' | 'done' | 'failed' | 'estimate' | 'cancelled';
  /** Of this question or, if `stale`, of the one before it. */
  result: Result | null;
  stale: boolean;
  progress: ShardsDone | null;
  /** The answer is whole in itself, but not about all shards. */
  incomplete: Incomplete | null;
  tookMs: number | null;
  cached: boolean;
  error: unknown;
  estimate: Estimate | null;
  /** It runs beside the others: their end is not its end. */
  beside: boolean;
}

/** The stages of the page. Top values have runs of their own. */
export interface Run {
  /** How the server understood the question: the one before as long as it has not `answered`. */
  opened: Opened | null;
  answered: boolean;
  /** What is asked, and what `opened` is about: the keys of two questions as long as it has not `answered`. */
  askedKey: string | null;
  answeredKey: string | null;
  /** The stages that were asked together have not ended. */
  streaming: boolean;
  /** Any stage has not. */
  running: boolean;
  /** What kept the whole question from being answered. */
  error: unknown;
  /** How many events match by now, where that was counted after the answer. */
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

/** A stage that is being asked for. */
export const LOADING: Stage<never> = { ...IDLE, status: 'loading' };

export const IDLE_RUN: Run = { opened: null, answered: false, askedKey: null, answeredKey: null, streaming: false, running: false, error: null, counted: null, unknownFields: [], sample: IDLE, histogram: IDLE, cardinality: IDLE };

export type RunAction =
  | { type: 'start'; key: string; stages: StageName[] }
  /** One stage is asked for beside the others. */
  | { type: 'start_stage'; stage: StageName }
  | { type: 'event'; event: DiscoverEvent }
  /** Counts of later than the answer: they stand in the place of its own. */
  | { type: 'recounted'; sample: Done | null; histogram: Done | null }
  /** The connection ended, or never began. */
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
      // Nothing came at all: one error for the page. Else each stage that has not ended says it.
      if (!run.answered) return { ...mapOpen(run, (stage) => ({ ...stage, status: 'idle' })), streaming: false, error: action.error };
      return { ...mapOpen(run, (stage) => ended(stage, action.error)), streaming: false };
    case 'cancelled':
      return { ...mapOpen(run, (stage) => ({ ...stage, status: 'cancelled' })), streaming: false };
  }
}

/**
 * Events in the bars where those are not as many as match; null: they are, or it is not known yet. The numbers are of moments apart
 * where events come meanwhile, and an event with several times is in several bars.
 */
export function barsApart(sample: Stage<Sample>, histogram: Stage<Histogram>, counted: Sample['total'] | null): number | null {
  const total = counted ?? sample.result?.total;
  const known = [sample, histogram].every((stage) => stage.status === 'done' && !stage.incomplete);
  if (!known || !histogram.result || total?.relation !== 'eq') return null;
  const sum = histogram.result.buckets.reduce((sum, { count }) => sum + count, 0);
  return sum === total.value ? null : sum;
}

/** A count that lacks shards says less than the whole one of before. */
function countedBy({ sample }: Run, done: Done | null): Sample['total'] | null {
  if (!done || sample.status !== 'done' || (done.partial && !sample.incomplete)) return null;
  return (done.result as Sample).total;
}

/** Asked again: what is known stays to be seen until there is something new. */
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
      // A stage that the server forgot would load forever.
      return { ...mapOpen(run, (stage) => ended(stage, new Error('the server ended without an answer'))), streaming: false };
    default: {
      const name = event.stage;
      if (name === 'top_values') return run;
      const stage = withStageEvent(run[name] as Stage<unknown>, event);
      return { ...run, [name]: stage };
    }
  }
}

/** An event about one stage. */
export type StageEvent = Exclude<DiscoverEvent, { event: 'opened' | 'hints' | 'end' }>;

/** What an event tells of its stage. */
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

/** What becomes of a stage that has no answer when those that were asked together end. */
const ended = (stage: Stage<unknown>, error: unknown): Stage<unknown> => (stage.beside ? stage : { ...stage, status: 'failed', error });

export function incomplete({ partial, timed_out: timedOut, shards }: Done): Incomplete | null {
  return partial ? { failures: shards.failures ?? [], failed: shards.failed, total: shards.total, timedOut } : null;
}

const isOpen = ({ status }: Stage<unknown>) => status === 'loading' || status === 'partial';

/** Changes the stages that have not ended. */
function mapOpen(run: Run, change: (stage: Stage<unknown>) => Stage<unknown>): Run {
  const next = { ...run };
  for (const name of PAGE_STAGES) {
    const stage = run[name] as Stage<unknown>;
    if (isOpen(stage)) Object.assign(next, { [name]: change(stage) });
  }
  return next;
}
