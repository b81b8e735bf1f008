import { startTransition, useCallback, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'react';
import { discover, type DiscoverEvent, discoverRun, type Done, type Frozen, type Opened, type Question, type StageName, type StageRequest } from '../../api/discover';
import { parseJson } from '../../lib/json';
import { IDLE_RUN, reduceRun, type Run, type StageEvent } from './run';

export interface RunControl {
  run: Run;
  /** Sends the same request again. */
  again: () => void;
  /** Sends the request of the next state early, before the page renders, which takes longer. */
  begin: (asked: Asked) => void;
  cancel: () => void;
  /** Runs one stage regardless of its cost. */
  goOn: (stage: StageName) => void;
  /** Requests total and histogram up to now in one request, and replaces those on the page. */
  recount: () => Promise<void>;
  /** Starts a background run of all stages regardless of cost. Returns its id; null if there is no request. */
  background: () => Promise<string | null>;
  /** Request of the displayed response; the previous one until the server answers. */
  answered: Question | null;
  /** The same with absolute times, so that further pages and counts cover the same events. */
  pinned: Question | null;
}

/** Request of the page. */
export interface Asked {
  question: Question;
  histogram: Extract<StageRequest, { stage: 'histogram' }> | null;
  /** Background run to show instead of sending the request. */
  runId: string | null;
}

function stagesOf({ histogram }: Asked): StageRequest[] {
  return [{ stage: 'sample', size: 100, highlight: true }, ...(histogram ? [histogram] : []), { stage: 'cardinality' }];
}

/** Request in flight. */
interface Sent {
  key: string;
  abort: AbortController;
  events: AsyncGenerator<DiscoverEvent>;
}

function sent(key: string): Sent {
  const asked = parseJson(key) as Asked;
  const abort = new AbortController();
  const events = asked.runId ? discoverRun(asked.runId, abort.signal) : discover(asked.question, stagesOf(asked), 'ask', abort.signal);
  return { key, abort, events: begun(events) };
}

/**
 * Sends the request whenever it changes, and follows the response. The sample renders at once, other stages with low
 * priority.
 */
export function useRun(asked: Asked | null): RunControl {
  const [run, dispatch] = useReducer(reduceRun, IDLE_RUN);
  const [attempt, setAttempt] = useState(0);
  const ahead = useRef<Sent | null>(null);
  const following = useRef<AbortController | null>(null);
  /** Requests of stages that run separately. */
  const beside = useRef(new Set<AbortController>());
  const key = asked && JSON.stringify(asked);

  useLayoutEffect(() => {
    if (!key) return;
    const early = ahead.current;
    ahead.current = null;
    if (early?.key !== key) early?.abort.abort('replaced');
    const { abort, events } = early?.key === key ? early : sent(key);
    const others = beside.current;
    following.current = abort;
    dispatch({ type: 'start', key, stages: stagesOf(parseJson(key) as Asked).map(({ stage }) => stage) });
    void follow();
    return () => {
      abort.abort('replaced');
      for (const other of others) other.abort('replaced');
    };

    async function follow() {
      try {
        for await (const event of events) {
          if (abort.signal.aborted) return;
          const action = { type: 'event' as const, event };
          if (!('stage' in event) || event.stage === 'sample') dispatch(action);
          else startTransition(() => dispatch(action));
        }
      } catch (error) {
        if (!abort.signal.aborted) dispatch({ type: 'broken', error });
      }
    }
  }, [key, attempt]);

  const { answeredKey } = run;
  const time = run.opened?.time;
  const answered = useMemo(() => (answeredKey === null ? null : (parseJson(answeredKey) as Asked).question), [answeredKey]);
  const pinned = useMemo(() => answered && withInstants(answered, time ?? null), [answered, time]);

  const again = useCallback(() => setAttempt((attempt) => attempt + 1), []);
  const begin = useCallback(
    (next: Asked) => {
      const nextKey = JSON.stringify(next);
      if (nextKey === key || nextKey === ahead.current?.key) return;
      ahead.current?.abort.abort('replaced');
      ahead.current = sent(nextKey);
    },
    [key],
  );
  const cancel = useCallback(() => {
    for (const abort of [following.current, ...beside.current]) abort?.abort('cancelled');
    dispatch({ type: 'cancelled' });
  }, []);
  const goOn = useCallback(
    (name: StageName) => {
      const stage = answeredKey !== null && answeredKey === key && stagesOf(parseJson(answeredKey) as Asked).find((stage) => stage.stage === name);
      if (!stage || !pinned) return;
      const abort = new AbortController();
      beside.current.add(abort);
      dispatch({ type: 'start_stage', stage: name });
      const tell = (event: StageEvent) => startTransition(() => dispatch({ type: 'event', event }));
      void alone(pinned, stage, abort.signal, tell).finally(() => beside.current.delete(abort));
    },
    [key, answeredKey, pinned],
  );
  const { status: histogramStatus } = run.histogram;
  const recount = useCallback(async () => {
    const asked = answeredKey !== null && answeredKey === key ? (parseJson(answeredKey) as Asked) : null;
    if (!asked || asked.runId) return;
    const stages: StageRequest[] = [{ stage: 'sample', size: 0 }];
    // A histogram that failed, or whose cost was not accepted, is not requested repeatedly.
    if (asked.histogram && histogramStatus === 'done') stages.push(asked.histogram);
    const abort = new AbortController();
    beside.current.add(abort);
    const done: Partial<Record<StageName, Done>> = {};
    try {
      for await (const event of discover(asked.question, stages, 'ask', abort.signal)) {
        if (event.event === 'done') done[event.stage] = event;
      }
    } catch {
      // The counts on the page stay, and the next request follows soon.
    } finally {
      beside.current.delete(abort);
    }
    if (abort.signal.aborted) return;
    // Both at once, because users compare them.
    startTransition(() => dispatch({ type: 'recounted', sample: done.sample ?? null, histogram: done.histogram ?? null }));
  }, [key, answeredKey, histogramStatus]);
  const background = useCallback(async () => {
    if (!key || answeredKey !== key || !pinned) return null;
    for await (const event of discover(pinned, stagesOf(parseJson(key) as Asked), 'background', new AbortController().signal)) {
      if (event.event === 'opened') return event.id;
    }
    return null;
  }, [key, answeredKey, pinned]);
  return { run, again, begin, cancel, goOn, recount, background, answered, pinned };
}

/** Replaces the times of a request by the absolute times that the server resolved. */
export function withInstants(question: Question, time: Opened['time']): Question {
  if (!question.time || !time) return question;
  const { from_ms: from, to_ms: to } = time;
  return { ...question, time: { field: question.time.field, zone: question.time.zone, ...(from !== null && { from }), ...(to !== null && { to }) } };
}

/** Starts a generator at once instead of when its first event is read. */
export function begun<Event>(events: AsyncGenerator<Event>): AsyncGenerator<Event> {
  const first = events.next();
  // The reader gets the rejection; this handler avoids an unhandled one if there is no reader.
  first.catch(() => {});
  return (async function* () {
    const { done, value } = await first;
    if (done) return;
    yield value as Event;
    yield* events;
  })();
}

/** Runs one stage in a separate request and reports its events. */
export async function alone(question: Question, stage: StageRequest, signal: AbortSignal, tell: (event: StageEvent) => void, frozen: Frozen = 'run'): Promise<void> {
  const of = { stage: stage.stage, ...('field' in stage && { field: stage.field }) };
  const fail = (reason: string) => tell({ event: 'failed', ...of, took_ms: 0, status: 0, error: { type: 'unreachable', reason } });
  let told = false;
  try {
    for await (const event of discover(question, [stage], frozen, signal)) {
      if (!('stage' in event)) continue;
      if (signal.aborted) return;
      told = event.event !== 'progress' && event.event !== 'partial';
      tell(event);
    }
    if (!told) fail('the server ended the response without a result');
  } catch (error) {
    if (!signal.aborted) fail((error as Error).message);
  }
}
