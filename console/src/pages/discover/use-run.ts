import { startTransition, useCallback, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'react';
import { discover, type DiscoverEvent, discoverRun, type Done, type Frozen, type Opened, type Question, type StageName, type StageRequest } from '../../api/discover';
import { parseJson } from '../../lib/json';
import { IDLE_RUN, reduceRun, type Run, type StageEvent } from './run';

export interface RunControl {
  run: Run;
  /** Asks the same again. */
  again: () => void;
  /** Sends the request of a question that is about to be on the page: drawing the page for it takes longer. */
  begin: (asked: Asked) => void;
  cancel: () => void;
  /** Runs one stage whatever it costs. */
  goOn: (stage: StageName) => void;
  /** Counts again up to now, total and histogram together, beside what is on the page, and puts the answers in the place of what is there. */
  recount: () => Promise<void>;
  /** Begins all stages in the background whatever they cost; the id of their run, null if there is nothing to ask. */
  background: () => Promise<string | null>;
  /** What the answer on the page is about, as it was asked: the question before as long as the server has not answered. */
  answered: Question | null;
  /** The same with the instants that it is about: further pages and counts are of the same events. */
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
  return [{ stage: 'sample', size: 100, highlight: true }, ...(histogram ? [histogram] : []), { stage: 'cardinality' }];
}

/** A request that is under way. */
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

/** Asks whenever the question changes, and follows the answer. The sample is drawn at once, the rest when there is time. */
export function useRun(asked: Asked | null): RunControl {
  const [run, dispatch] = useReducer(reduceRun, IDLE_RUN);
  const [attempt, setAttempt] = useState(0);
  const ahead = useRef<Sent | null>(null);
  const following = useRef<AbortController | null>(null);
  /** Stages that run beside the others. */
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
    // One that failed, or has not been paid for, is not asked for again and again.
    if (asked.histogram && histogramStatus === 'done') stages.push(asked.histogram);
    const abort = new AbortController();
    beside.current.add(abort);
    const done: Partial<Record<StageName, Done>> = {};
    try {
      for await (const event of discover(asked.question, stages, 'ask', abort.signal)) {
        if (event.event === 'done') done[event.stage] = event;
      }
    } catch {
      // The counts on the page are of their moment still, and the next ones come soon.
    } finally {
      beside.current.delete(abort);
    }
    if (abort.signal.aborted) return;
    // Together: people compare them.
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

/** The question about the very instants that the server took its times for. */
export function withInstants(question: Question, time: Opened['time']): Question {
  if (!question.time || !time) return question;
  const { from_ms: from, to_ms: to } = time;
  return { ...question, time: { field: question.time.field, zone: question.time.zone, ...(from !== null && { from }), ...(to !== null && { to }) } };
}

/** The same events, whose request is sent now and not when the first is waited for. */
export function begun<Event>(events: AsyncGenerator<Event>): AsyncGenerator<Event> {
  const first = events.next();
  // Whoever waits for it learns why it failed; nobody may.
  first.catch(() => {});
  return (async function* () {
    const { done, value } = await first;
    if (done) return;
    yield value as Event;
    yield* events;
  })();
}

/** Runs one stage beside the others, and tells its events. */
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
    if (!told) fail('the server ended without an answer');
  } catch (error) {
    if (!signal.aborted) fail((error as Error).message);
  }
}
