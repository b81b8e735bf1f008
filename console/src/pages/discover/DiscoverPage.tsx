import { Button } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { IconList } from '@tabler/icons-react';
import { lazy, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import type { Hit, Language, Question } from '../../api/discover';
import { errorText } from '../../api/errors';
import type { Field } from '../../api/fields';
import { usePageTitle } from '../../app/page-title';
import { useFormat } from '../../app/preferences';
import { copyText } from '../../components/copy';
import { Empty } from '../../components/Empty';
import { Loading } from '../../components/Loading';
import { Part } from '../../components/Part';
import { absoluteRange, type TimeRange } from '../../lib/time-range';
import { exportColumns, toggledColumn } from './columns';
import classes from './Discover.module.css';
import type { EventActions } from './EventRow';
import { EventsTotal } from './EventsTotal';
import { EventTable } from './EventTable';
import { FieldList } from './FieldList';
import { FilterBar } from './FilterBar';
import { failuresOf } from './failures';
import { type Condition, exactCondition, type Filter, withCondition } from './filters';
import { Histogram } from './Histogram';
import { shownField } from './multi-fields';
import { Notices } from './Notices';
import { QueryBar } from './QueryBar';
import { barsApart } from './run';
import { SourcePicker } from './SourcePicker';
import { StageState } from './StageState';
import { type ColumnState, decodeState, type DiscoverState, encodeState, type SortState, toQuestion } from './state';
import { TimePicker } from './TimePicker';
import { Toolbar } from './Toolbar';
import { type Update, useDiscoverState } from './use-discover-state';
import { focusOn, press, useKeys } from './use-keys';
import { useLiveRefresh } from './use-live-refresh';
import { useRows } from './use-rows';
import { type Asked, type RunControl, useRun } from './use-run';
import { useFields, useSources, useTimeField } from './use-source';
import { useTail, useTailed } from './use-tail';

const Start = lazy(() => import('../start'));
const NoHits = lazy(() => import('./NoHits'));
const Surrounding = lazy(() => import('./Surrounding'));
const ExportDialog = lazy(() => import('./ExportDialog'));
const FieldDrawer = lazy(() => import('./FieldDrawer'));
const Help = lazy(() => import('./Help'));

const NONE: never[] = [];
/** Below this width the field list moves to a drawer, as in the style sheets. */
const NARROW = '(max-width: 56em)';
/** Time field of a source that is not known yet. */
const TIME_FIELD = '@timestamp';

/** Discover page: query, filters, time range and the matching events. */
export function DiscoverPage() {
  usePageTitle('Discover');
  const format = useFormat();
  const { state, problems, update } = useDiscoverState();
  const { sources, source, timeField, question, asked, refused, askedOf } = useAsked(state);
  const { refetch } = sources;
  const askSources = useCallback(() => void refetch(), [refetch]);
  const control = useRun(asked);
  const { run, again, cancel, goOn, recount, answered, pinned } = control;
  const rows = useRows(run, pinned);
  const fields = useFields(run.answered ? question : null);
  const fieldList = fields.data?.fields ?? NONE;
  const fieldsByName = useMemo(() => new Map(fieldList.map((field) => [field.name, field])), [fieldList]);
  const tail = useTail(useTailed(state.live, question, answered, run.error), run.opened);
  const [dialog, setDialog] = useState<'export' | 'help' | 'fields' | null>(null);
  const narrow = useMediaQuery(NARROW, false, { getInitialValueInEffect: false });
  const [anchor, setAnchor] = useState<Hit | null>(null);
  useAutoRefresh(state.refreshMs, run.running, again);
  // Fetches the events that arrived between the response and the start of the tail.
  useEffect(() => {
    if (tail.connected) again();
  }, [tail.connected, again]);

  useLiveRefresh(state.live, !run.running && run.sample.status === 'done', tail.hits, recount);

  const [reruns, setReruns] = useState(0);
  const rerun = useCallback(() => {
    setReruns((reruns) => reruns + 1);
    again();
  }, [again]);
  const order = useMemo(() => answered && orderOf(answered, reruns), [answered, reruns]);

  const goOnCounts = useCallback(() => goOn('cardinality'), [goOn]);
  const goOnHistogram = useCallback(() => goOn('histogram'), [goOn]);
  const openExport = useCallback(() => setDialog('export'), []);
  const openHelp = useCallback(() => setDialog('help'), []);
  const on = useHandlers(state, update, { ...control, again: rerun }, askedOf, setAnchor, fieldsByName);
  useKeys({
    '/': focusOn('[data-query]'),
    t: () => press('[data-time]'),
    f: narrow ? () => setDialog('fields') : focusOn('[data-fields]'),
    e: focusOn('[data-events]'),
    r: rerun,
    l: () => on.live(!state.live),
    '?': () => setDialog('help'),
  });

  const { sample } = run;
  const total = sample.result?.total ?? null;
  const failure = refused ?? run.error;
  const failed = failuresOf(failure, state.range, Date.now(), format.zone);
  // Everything after the first rows renders with low priority.
  const histogram = useDeferredValue(run.histogram);
  const cardinality = useDeferredValue(run.cardinality);
  const apart = useMemo(() => barsApart(sample, histogram, run.counted), [sample, histogram, run.counted]);
  const counted = useDeferredValue(pinned);
  const columnNames = useMemo(() => state.columns.map(({ name }) => name), [state.columns]);
  const exported = useMemo(() => exportColumns(columnNames, timeField), [columnNames, timeField]);
  const time = run.opened?.time;
  const shown = useMemo(() => (time ? { from: time.from_ms, to: time.to_ms } : null), [time]);
  const link = useDeferredValue(useMemo(() => encodeState({ ...state, source, live: false }), [state, source]));
  // A background run expires after days, so a saved search does not reference it.
  const search = useDeferredValue(useMemo(() => encodeState({ ...state, source, live: false, run: null }), [state, source]));
  const linkOfInstants = useMemo(() => {
    const { from, to } = shown ?? {};
    return typeof from === 'number' && typeof to === 'number' ? encodeState({ ...state, source, live: false, range: absoluteRange(from, to) }) : null;
  }, [state, source, shown]);
  const fixedSearch = useDeferredValue(linkOfInstants);
  const canExport = useDeferredValue(pinned !== null && run.answered);
  const narrowed = state.text !== '' || state.filters.some((filter) => !filter.off);
  const isEmpty = sample.status === 'done' && total?.value === 0;
  const empty = useMemo(() => isEmpty && pinned && <NoHits question={pinned} narrowed={narrowed} onRange={on.range} onWiden={on.widen} />, [isEmpty, pinned, narrowed, on]);
  const fieldPane = (
    <FieldList
      fields={fieldList}
      error={fields.error}
      counts={cardinality}
      columns={columnNames}
      first={fields.data?.columns ?? NONE}
      question={counted}
      onFilter={on.filter}
      onColumn={on.column}
      onRetry={again}
      onGoOn={goOnCounts}
      onBackground={on.background}
    />
  );

  return (
    <div className={classes.page}>
      <h1 className={classes.hidden}>Discover</h1>
      <div className={classes.bar}>
        <SourcePicker source={source} sources={sources.data ?? null} error={sources.error} onRetry={askSources} onPick={on.source} />
        <div className={classes.query}>
          <QueryBar text={state.text} language={state.language} error={failed.query} running={run.running} question={question} onRun={on.query} onCancel={cancel} />
        </div>
        <TimePicker range={state.range} refreshMs={state.refreshMs} live={state.live} error={failed.time} shown={shown} onChange={on.range} onRefresh={on.refresh} onLive={on.live} />
      </div>
      <div className={classes.pills}>
        <FilterBar filters={state.filters} fields={fieldList} onChange={on.filters} />
        <Toolbar
          search={search}
          link={link}
          fixedSearch={fixedSearch}
          saved={state.saved}
          canExport={canExport}
          onOpen={on.open}
          onSaved={on.saved}
          onExport={openExport}
          onHelp={openHelp}
        />
      </div>
      <Notices
        problems={problems}
        failure={failed.page}
        sourcesError={source === '' ? sources.error : null}
        background={state.run !== null}
        tail={tail}
        unknownFields={run.unknownFields}
        onCorrect={(text) => on.query(text, state.language)}
        onRetry={again}
        onAnew={on.anew}
      />
      {source === '' && !sources.isPending && !sources.error ? (
        <div className={classes.first}>
          <Empty title="No data yet">This server has no events that you can access. Follow these steps to send some:</Empty>
          <Part lost="Failed to load the steps">
            <Start />
          </Part>
        </div>
      ) : (
        <div className={classes.body}>
          {!narrow && fieldPane}
          <div className={classes.content}>
            <EventsTotal stage={refused ? { ...sample, stale: true } : sample} counted={run.counted} bars={apart} fresh={tail.hits.length} live={state.live}>
              {narrow && (
                <Button variant="default" size="compact-xs" ms="auto" leftSection={<IconList size={14} aria-hidden />} aria-haspopup="dialog" onClick={() => setDialog('fields')}>
                  Fields
                </Button>
              )}
            </EventsTotal>
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
            <StageState name="Events" stage={sample} onRetry={again} />
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
                order={order}
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
      <Part lost="Failed to load the dialog" fallback={null}>
        {narrow && (
          <FieldDrawer opened={dialog === 'fields'} onClose={() => setDialog(null)}>
            {fieldPane}
          </FieldDrawer>
        )}
        {dialog === 'help' && <Help onClose={() => setDialog(null)} />}
        {dialog === 'export' && pinned && <ExportDialog question={exported.length > 0 ? { ...pinned, columns: exported } : pinned} columns={exported} total={total?.relation === 'eq' ? total.value : null} onClose={() => setDialog(null)} />}
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
      </Part>
    </div>
  );
}

/** Builds the request for the server as soon as the source and its time field are known. */
function useAsked(state: DiscoverState) {
  const { zone } = useFormat();
  const sources = useSources();
  const source = state.source || sources.data?.default || '';
  const known = sources.data?.sources.find(({ name }) => name === source);
  // A pattern or a list of names is not among the sources: its time field comes from its fields.
  const pattern = useTimeField(source !== '' && !sources.isPending && !known ? source : null);
  const timeField = known ? known.time_field : pattern.data === undefined ? TIME_FIELD : pattern.data;
  // A named source only waits for its time field.
  const ready = source !== '' && !sources.isPending && (known !== undefined || !pattern.isPending);
  // Only the parts of the request: other state, such as `saved`, must not repeat the search.
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
  /** Returns the request that this page will send in state `next`; null if unknown or none. */
  const askedOf = (next: DiscoverState): Asked | null => {
    if (!ready || next.source !== state.source) return null;
    try {
      // Round trip through the URL, from which the page will read its state.
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

/** Event handlers of the page's parts, with stable identities so that memoized parts do not render again. */
function useHandlers(state: DiscoverState, write: Update, { again, begin, background }: RunControl, askedOf: (state: DiscoverState) => Asked | null, setAnchor: (hit: Hit) => void, fields: ReadonlyMap<string, Field>) {
  const latest = useRef({ state, again, begin, background, askedOf, fields });
  latest.current = { state, again, begin, background, askedOf, fields };
  return useMemo(() => {
    const before = (next: DiscoverState) => {
      const { begin, askedOf } = latest.current;
      const asked = askedOf(next);
      if (asked) begin(asked);
    };
    const update: Update = (patch, options) => write(patch, { ...options, before });
    const filter = (condition: Condition, not: boolean) => {
      const exact = exactCondition(condition, latest.current.fields);
      if (typeof exact === 'string') notifications.show({ color: 'yellow', title: 'Cannot filter by this value', message: exact });
      else update({ filters: withCondition(latest.current.state.filters, exact, not) });
    };
    const column = (name: string) => {
      const { state, fields } = latest.current;
      // A column of a text field may be stored as its keyword sub-field.
      const known = state.columns.find((column) => shownField(column.name, fields) === name);
      update({ columns: toggledColumn(state.columns, known?.name ?? name) }, { replace: true });
    };
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
          (error: unknown) => notifications.show({ color: 'red', title: 'Failed to start the background search', message: errorText(error) }),
        );
      },
    };
  }, [write, setAnchor]);
}

/** Key of the events and their order; it ignores columns. `reruns` counts how often the user refreshed. */
function orderOf(question: Question, reruns: number): string {
  return JSON.stringify([{ ...question, columns: undefined }, reruns]);
}

/** Width of the chart next to the field list: the server picks an interval that fits. */
function chartWidth(): number {
  // In steps, so that a slightly wider window sends the same request.
  return Math.max(300, Math.round((window.innerWidth - 340) / 100) * 100);
}

/** Refreshes `everyMs` after each response. */
function useAutoRefresh(everyMs: number, running: boolean, again: () => void) {
  useEffect(() => {
    if (everyMs <= 0 || running) return;
    const timer = window.setTimeout(again, everyMs);
    return () => window.clearTimeout(timer);
  }, [everyMs, running, again]);
}
