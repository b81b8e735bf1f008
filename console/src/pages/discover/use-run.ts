import { startTransition, useCallback, useEffect, useMemo, useReducer, useRef, useState } from 'react';
import { discover, type DiscoverEvent, discoverRun, type Frozen, type Question, type StageName, type StageRequest } from '../../api/discover';
import { IDLE_RUN, reduceRun, type Run } from './run';

export interface RunControl {
  run: Run;
  /** Asks the same again. */
  again: () => void;
  cancel: () => void;
  /** Runs one stage whatever it costs. */
  goOn: (stage: StageName) => void;
  /** Begins all stages in the background whatever they cost; the id of their run, null if there is nothing to ask. */
  background: () => Promise<string | null>;
  /** The question with the instants that the answer is about: further pages and counts are of the same events. */
  pinned: Question | null;
}

/** What is asked; `null` as long as it is not known. */
export interface Asked {
  question: Question;
  histogram: Extract<StageRequest, { stage: 'histogram' }> | null;
  /** Shows this run in the background instead of asking. */
  runId: string | null;
}

function stagesOf({ histogram }: Asked): StageRequest[] {
  return [{ stage: 'sample', size: 100 }, ...(histogram ? [histogram] : []), { stage: 'cardinality' }];
}

/** Asks whenever the question changes, and follows the answer. The sample is drawn at once, the rest when there is time. */
export function useRun(asked: Asked | null): RunControl {
  const [run, dispatch] = useReducer(reduceRun, IDLE_RUN);
  const [attempt, setAttempt] = useState(0);
  const controller = useRef<AbortController | null>(null);
  const key = asked && JSON.stringify(asked);

  useEffect(() => {
    if (!key) return;
    const wanted = JSON.parse(key) as Asked;
    const stages = stagesOf(wanted);
    const abort = new AbortController();
    controller.current = abort;
    dispatch({ type: 'start', stages: stages.map(({ stage }) => stage) });
    const events = wanted.runId ? discoverRun(wanted.runId, abort.signal) : discover(wanted.question, stages, 'ask', abort.signal);
    void follow(events);
    return () => abort.abort('replaced');

    async function follow(events: AsyncGenerator<DiscoverEvent>) {
      try {
        for await (const event of events) {
          const action = { type: 'event' as const, event };
          if (!('stage' in event) || event.stage === 'sample') dispatch(action);
          else startTransition(() => dispatch(action));
        }
      } catch (error) {
        if (!abort.signal.aborted) dispatch({ type: 'broken', error });
      }
    }
  }, [key, attempt]);

  const time = run.opened?.time;
  const pinned = useMemo((): Question | null => {
    if (!key) return null;
    const { question } = JSON.parse(key) as Asked;
    if (!question.time || !time) return question;
    const { from_ms: from, to_ms: to } = time;
    return { ...question, time: { field: question.time.field, zone: question.time.zone, ...(from !== null && { from }), ...(to !== null && { to }) } };
  }, [key, time]);

  const again = useCallback(() => setAttempt((attempt) => attempt + 1), []);
  const cancel = useCallback(() => {
    controller.current?.abort('cancelled');
    dispatch({ type: 'cancelled' });
  }, []);
  const goOn = useCallback(
    (name: StageName) => {
      const stage = key && stagesOf(JSON.parse(key) as Asked).find((stage) => stage.stage === name);
      const signal = controller.current?.signal;
      if (!stage || !pinned || !signal) return;
      dispatch({ type: 'start_stage', stage: name });
      void alone(pinned, stage, signal, (event) => startTransition(() => dispatch({ type: 'event', event })));
    },
    [key, pinned],
  );
  const background = useCallback(async () => {
    if (!key || !pinned) return null;
    for await (const event of discover(pinned, stagesOf(JSON.parse(key) as Asked), 'background', new AbortController().signal)) {
      if (event.event === 'opened') return event.id;
    }
    return null;
  }, [key, pinned]);
  return { run, again, cancel, goOn, background, pinned };
}

type StageEvent = Exclude<DiscoverEvent, { event: 'opened' | 'end' }>;

/** Runs one stage beside the others, and tells its events. */
export async function alone(question: Question, stage: StageRequest, signal: AbortSignal, tell: (event: StageEvent) => void, frozen: Frozen = 'run'): Promise<void> {
  const of = { stage: stage.stage, ...('field' in stage && { field: stage.field }) };
  const fail = (reason: string) => tell({ event: 'failed', ...of, took_ms: 0, status: 0, error: { type: 'unreachable', reason } });
  let told = false;
  try {
    for await (const event of discover(question, [stage], frozen, signal)) {
      if (!('stage' in event)) continue;
      told = event.event !== 'progress' && event.event !== 'partial';
      tell(event);
    }
    if (!told) fail('the server ended without an answer');
  } catch (error) {
    if (!signal.aborted) fail((error as Error).message);
  }
}
