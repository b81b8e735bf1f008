import { Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { lazy, Suspense, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import { Link } from 'react-router';
import type { Hit, Language, Question } from '../../api/discover';
import { ApiError, errorText } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { copyText } from '../../components/copy';
import { Empty } from '../../components/Empty';
import { Loading } from '../../components/Loading';
import { absoluteRange, type TimeRange } from '../../lib/time-range';
import { toggledColumn } from './columns';
import classes from './Discover.module.css';
import type { EventActions } from './EventRow';
import { EventsTotal } from './EventsTotal';
import { EventTable } from './EventTable';
import { FieldList } from './FieldList';
import { FilterBar } from './FilterBar';
import { type Condition, type Filter, withCondition } from './filters';
import { Histogram } from './Histogram';
import { Notices } from './Notices';
import { QueryBar } from './QueryBar';
import { SourcePicker } from './SourcePicker';
import { StageState } from './StageState';
import { type ColumnState, decodeState, type DiscoverState, encodeState, type SortState, toQuestion } from './state';
import { TimePicker } from './TimePicker';
import { Toolbar } from './Toolbar';
import { type Update, useDiscoverState } from './use-discover-state';
import { focusOn, useKeys } from './use-keys';
import { useRows } from './use-rows';
import { type Asked, type RunControl, useRun } from './use-run';
import { useFields, useSources, useTimeField } from './use-source';
import { useTail } from './use-tail';

const NoHits = lazy(() => import('./NoHits'));
const Surrounding = lazy(() => import('./Surrounding'));
const ExportDialog = lazy(() => import('./ExportDialog'));
const Help = lazy(() => import('./Help'));

const NONE: never[] = [];
/** Fields of events whose source is not known yet. */
const TIME_FIELD = '@timestamp';

/** The page about events: what is asked, and what the server says of it. */
export function DiscoverPage() {
  const { state, problems, update } = useDiscoverState();
  const { sources, source, timeField, question, asked, refused, askedOf } = useAsked(state);
  const control = useRun(asked);
  const { run, again, cancel, goOn, answered, pinned } = control;
  const rows = useRows(run, pinned);
  const fields = useFields(run.answered ? question : null);
  const fieldList = fields.data?.fields ?? NONE;
  const fieldsByName = useMemo(() => new Map(fieldList.map((field) => [field.name, field])), [fieldList]);
  // Asked again it stays the same tail: it would begin for ever.
  const tail = useTail(state.live && question && JSON.stringify(answered) === JSON.stringify(question) ? question : null);
  const [dialog, setDialog] = useState<'export' | 'help' | null>(null);
  const [anchor, setAnchor] = useState<Hit | null>(null);
  useAutoRefresh(state.refreshMs, run.running, again);
  // What came between the answer and the beginning of the tail is asked for once more.
  useEffect(() => {
    if (tail.connected) again();
  }, [tail.connected, again]);

  const goOnCounts = useCallback(() => goOn('cardinality'), [goOn]);
  const goOnHistogram = useCallback(() => goOn('histogram'), [goOn]);
  const openExport = useCallback(() => setDialog('export'), []);
  const openHelp = useCallback(() => setDialog('help'), []);
  const on = useHandlers(state, update, control, askedOf, setAnchor);
  useKeys({
    '/': focusOn('[data-query]'),
    t: () => document.querySelector<HTMLElement>('[data-time]')?.click(),
    f: focusOn('[data-fields]'),
    e: focusOn('[data-events]'),
    r: again,
    l: () => on.live(!state.live),
    '?': () => setDialog('help'),
  });

  const { sample } = run;
  const total = sample.result?.total ?? null;
  const failure = refused ?? run.error;
  const inQuery = failure instanceof ApiError && (failure.position !== undefined || failure.status === 400) ? failure : null;
  // What comes after the first rows is drawn when there is time.
  const histogram = useDeferredValue(run.histogram);
  const cardinality = useDeferredValue(run.cardinality);
  const counted = useDeferredValue(pinned);
  const columnNames = useMemo(() => state.columns.map(({ name }) => name), [state.columns]);
  const time = run.opened?.time;
  const shown = useMemo(() => (time ? { from: time.from_ms, to: time.to_ms } : null), [time]);
  const link = useMemo(() => encodeState({ ...state, source, live: false }), [state, source]);
  // The run in the background is gone after days: what is kept asks anew.
  const search = useMemo(() => encodeState({ ...state, source, live: false, run: null }), [state, source]);
  const fixedSearch = useMemo(() => {
    const { from, to } = shown ?? {};
    return typeof from === 'number' && typeof to === 'number' ? encodeState({ ...state, source, live: false, range: absoluteRange(from, to) }) : null;
  }, [state, source, shown]);
  const narrowed = state.text !== '' || state.filters.some((filter) => !filter.off);
  const isEmpty = sample.status === 'done' && total?.value === 0;
  const empty = useMemo(() => isEmpty && pinned && <NoHits question={pinned} narrowed={narrowed} onRange={on.range} onWiden={on.widen} />, [isEmpty, pinned, narrowed, on]);

  return (
    <div className={classes.page}>
      <h1 className={classes.hidden}>Discover</h1>
      <div className={classes.bar}>
        <SourcePicker source={source} sources={sources} onPick={on.source} />
        <div className={classes.query}>
          <QueryBar text={state.text} language={state.language} error={inQuery} running={run.running} question={question} onRun={on.query} onCancel={cancel} />
        </div>
        <TimePicker range={state.range} refreshMs={state.refreshMs} live={state.live} shown={shown} onChange={on.range} onRefresh={on.refresh} onLive={on.live} />
      </div>
      <div className={classes.pills}>
        <FilterBar filters={state.filters} fields={fieldList} onChange={on.filters} />
        <Toolbar
          search={search}
          link={link}
          fixedSearch={fixedSearch}
          saved={state.saved}
          canExport={pinned !== null && run.answered}
          onOpen={on.open}
          onSaved={on.saved}
          onExport={openExport}
          onHelp={openHelp}
        />
      </div>
      <Notices
        problems={problems}
        failure={inQuery ? null : failure}
        sourcesError={source === '' ? sources.error : null}
        background={state.run !== null}
        tail={state.live ? tail : null}
        onRetry={again}
        onAnew={on.anew}
      />
      {source === '' && !sources.isPending && !sources.error ? (
        <Empty title="There is nothing to look at yet">
          <Text component={Link} to="/start" c="var(--mantine-color-anchor)" inherit>
            How to send events
          </Text>
        </Empty>
      ) : (
        <div className={classes.body}>
          <FieldList
            fields={fieldList}
            error={fields.error}
            counts={cardinality}
            columns={columnNames}
            question={counted}
            onFilter={on.filter}
            onColumn={on.column}
            onRetry={again}
            onGoOn={goOnCounts}
            onBackground={on.background}
          />
          <div className={classes.content}>
            <EventsTotal stage={refused ? { ...sample, stale: true } : sample} fresh={tail.hits.length} live={state.live} />
            {timeField !== null && (
              <Histogram
                stage={histogram}
                fields={fieldList}
                splitBy={state.splitBy}
                interval={state.interval}
                onRange={on.range}
                onSplit={on.split}
                onInterval={on.interval}
                onFilter={on.is}
                onRetry={again}
                onGoOn={goOnHistogram}
                onBackground={on.background}
              />
            )}
            <StageState name="The table" stage={sample} onRetry={again} />
            {sample.result === null && sample.status === 'loading' ? (
              <Loading label="Events" />
            ) : (
              <EventTable
                rows={rows}
                fresh={tail.hits}
                columns={state.columns}
                sort={state.sort}
                timeField={timeField}
                fields={fieldsByName}
                first={fields.data?.columns ?? NONE}
                total={total?.value ?? null}
                stale={sample.stale && sample.status === 'loading'}
                empty={empty}
                actions={on.actions}
                onColumns={on.columns}
                onSort={on.sort}
              />
            )}
          </div>
        </div>
      )}
      <Suspense>
        {dialog === 'help' && <Help onClose={() => setDialog(null)} />}
        {dialog === 'export' && pinned && <ExportDialog question={pinned} columns={columnNames} total={total?.relation === 'eq' ? total.value : null} onClose={() => setDialog(null)} />}
        {anchor && question && (
          <Surrounding
            anchor={anchor}
            question={question}
            columns={state.columns}
            timeField={timeField}
            fields={fieldsByName}
            first={fields.data?.columns ?? NONE}
            actions={on.actions}
            onClose={() => setAnchor(null)}
          />
        )}
      </Suspense>
    </div>
  );
}

/** What is asked of the server, as soon as it is known of what. */
function useAsked(state: DiscoverState) {
  const { zone } = useFormat();
  const sources = useSources();
  const source = state.source || sources.data?.default || '';
  const known = sources.data?.sources.find(({ name }) => name === source);
  // A pattern, or a list, is in no list of sources: its fields say what its time is.
  const pattern = useTimeField(source !== '' && !sources.isPending && !known ? source : null);
  const timeField = known ? known.time_field : pattern.data === undefined ? TIME_FIELD : pattern.data;
  // A source that is named need only wait for whether its time has another name.
  const ready = source !== '' && !sources.isPending && (known !== undefined || !pattern.isPending);
  // Only what the question is made of: to write down a link must not ask again.
  const { range, text, language, filters, columns, sort, splitBy, interval, run } = state;
  const { question, refused } = useMemo(() => {
    if (!ready) return { question: null, refused: null };
    try {
      return { question: toQuestion({ range, text, language, filters, columns, sort }, { source, timeField, zone }), refused: null };
    } catch (error) {
      return { question: null, refused: error };
    }
  }, [ready, range, text, language, filters, columns, sort, source, timeField, zone]);
  const asked = useMemo(() => question && withStages(question, { splitBy, interval, run }), [question, splitBy, interval, run]);
  /** What this page will ask once its state is `next`; null: not known yet, or nothing. */
  const askedOf = (next: DiscoverState): Asked | null => {
    if (!ready || next.source !== state.source) return null;
    try {
      // As it will be read from the address.
      const read = decodeState(encodeState(next)).state;
      return withStages(toQuestion(read, { source, timeField, zone }), read);
    } catch {
      return null;
    }
  };
  return { sources, source, timeField, question, asked, refused, askedOf };
}

function withStages(question: Question, { splitBy, interval, run }: Pick<DiscoverState, 'splitBy' | 'interval' | 'run'>): Asked {
  const split = splitBy === undefined ? {} : { split_by: splitBy };
  const histogram = question.time ? { stage: 'histogram' as const, width_px: chartWidth(), ...split, ...(interval && { interval }) } : null;
  return { question, histogram, runId: run };
}

/** What the parts of the page call: the same functions all the time, so that none is drawn anew for them. */
function useHandlers(state: DiscoverState, write: Update, { again, begin, background }: RunControl, askedOf: (state: DiscoverState) => Asked | null, setAnchor: (hit: Hit) => void) {
  const latest = useRef({ state, again, begin, background, askedOf });
  latest.current = { state, again, begin, background, askedOf };
  return useMemo(() => {
    const update: Update = (patch, options) => {
      const next = write(patch, options);
      const { begin, askedOf } = latest.current;
      const asked = askedOf(next);
      if (asked) begin(asked);
      return next;
    };
    const filter = (condition: Condition, not: boolean) => update({ filters: withCondition(latest.current.state.filters, condition, not) });
    const column = (name: string) => update({ columns: toggledColumn(latest.current.state.columns, name) }, { replace: true });
    const pinnedFilters = () => latest.current.state.filters.filter(({ pin }) => pin);
    const actions: EventActions = {
      onFilter: filter,
      onColumn: column,
      onSurrounding: setAnchor,
      onCopy: (text, what) => void copyText(text, what),
    };
    return {
      filter,
      column,
      actions,
      is: (field: string, value: string, not: boolean) => filter({ op: 'is', field, value }, not),
      filters: (filters: Filter[]) => update({ filters }),
      source: (source: string) => update({ source, filters: pinnedFilters(), columns: [], sort: [], splitBy: undefined, saved: null }),
      range: (range: TimeRange) => update({ range }),
      refresh: (refreshMs: number) => update({ refreshMs }, { replace: true }),
      live: (live: boolean) => update({ live }, { replace: true }),
      split: (splitBy: string | null | undefined) => update({ splitBy }, { replace: true }),
      interval: (interval: string | null) => update({ interval }, { replace: true }),
      columns: (columns: ColumnState[]) => update({ columns }, { replace: true }),
      sort: (sort: SortState[]) => update({ sort }),
      widen: () => update({ text: '', filters: [] }),
      anew: () => update({ run: null }),
      query: (text: string, language: Language) => {
        const { state, again } = latest.current;
        if (text === state.text && language === state.language) again();
        else update({ text, language });
      },
      open: (search: string, id: string) => {
        const { state } = decodeState(search);
        const pinned = pinnedFilters().filter((one) => !state.filters.some((other) => JSON.stringify(other) === JSON.stringify(one)));
        update({ ...state, filters: [...pinned, ...state.filters], run: null, saved: id });
      },
      saved: (saved: string | null) => update({ saved }, { replace: true }),
      background: () => {
        latest.current.background().then(
          (run) => run && update({ run }),
          (error: unknown) => notifications.show({ color: 'red', title: 'It could not be begun in the background', message: errorText(error) }),
        );
      },
    };
  }, [write, setAnchor]);
}

/** Left beside the list of fields: the server chooses bars that fit. */
function chartWidth(): number {
  // In steps, so that a window that is a little wider asks the same.
  return Math.max(300, Math.round((window.innerWidth - 340) / 100) * 100);
}

/** Asks again so long after each answer. */
function useAutoRefresh(everyMs: number, running: boolean, again: () => void) {
  useEffect(() => {
    if (everyMs <= 0 || running) return;
    const timer = window.setTimeout(again, everyMs);
    return () => window.clearTimeout(timer);
  }, [everyMs, running, again]);
}
