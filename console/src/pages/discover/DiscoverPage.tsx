import { Alert, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { lazy, Suspense, useCallback, useDeferredValue, useEffect, useMemo, useRef } from 'react';
import { Link } from 'react-router';
import type { Hit, Language } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { Empty } from '../../components/Empty';
import { Failed } from '../../components/Failed';
import { Loading } from '../../components/Loading';
import type { TimeRange } from '../../lib/time-range';
import { toggledColumn } from './columns';
import classes from './Discover.module.css';
import type { EventActions } from './EventRow';
import { EventTable } from './EventTable';
import { FieldList } from './FieldList';
import { FilterBar } from './FilterBar';
import { type Condition, withCondition } from './filters';
import { Histogram } from './Histogram';
import { QueryBar } from './QueryBar';
import { SourcePicker } from './SourcePicker';
import { StageState } from './StageState';
import { toQuestion } from './state';
import { TimePicker } from './TimePicker';
import { useDiscoverState } from './use-discover-state';
import { useRows } from './use-rows';
import { type Asked, useRun } from './use-run';
import { useFields, useSources } from './use-source';

const NoHits = lazy(() => import('./NoHits'));

const NONE: never[] = [];
/** Fields of events whose source is not known yet. */
const TIME_FIELD = '@timestamp';

/** The page about events: what is asked, and what the server says of it. */
export function DiscoverPage() {
  const format = useFormat();
  const { state, problems, update } = useDiscoverState();
  const sources = useSources();
  const source = state.source || sources.data?.default || '';
  const known = sources.data?.sources.find(({ name }) => name === source);
  const timeField = known ? known.time_field : TIME_FIELD;
  // A source that is named need only wait for whether its time has another name.
  const ready = source !== '' && !sources.isPending;

  const { question, refused } = useMemo(() => {
    if (!ready) return { question: null, refused: null };
    try {
      return { question: toQuestion(state, { source, timeField, zone: format.zone }), refused: null };
    } catch (error) {
      return { question: null, refused: error };
    }
  }, [ready, state, source, timeField, format.zone]);
  const asked = useMemo((): Asked | null => {
    if (!question) return null;
    const split = state.splitBy === undefined ? {} : { split_by: state.splitBy };
    const histogram = question.time ? { stage: 'histogram' as const, width_px: chartWidth(), ...split, ...(state.interval && { interval: state.interval }) } : null;
    return { question, histogram, runId: state.run };
  }, [question, state.splitBy, state.interval, state.run]);

  const { run, again, cancel, goOn, pinned } = useRun(asked);
  const rows = useRows(run, pinned);
  const fields = useFields(run.answered ? question : null);
  const fieldList = fields.data?.fields ?? NONE;
  const fieldsByName = useMemo(() => new Map(fieldList.map((field) => [field.name, field])), [fieldList]);
  useAutoRefresh(state.refreshMs, run.running, again);

  const latest = useRef(state);
  latest.current = state;
  const addFilter = useCallback((condition: Condition, not: boolean) => update({ filters: withCondition(latest.current.filters, condition, not) }), [update]);
  const toggleColumn = useCallback((name: string) => update({ columns: toggledColumn(latest.current.columns, name) }, { replace: true }), [update]);
  const setRange = useCallback((range: TimeRange) => update({ range }), [update]);
  const actions = useMemo(
    (): EventActions => ({
      onFilter: addFilter,
      onColumn: toggleColumn,
      onSurrounding: () => {},
      onCopy: (text, what) => void navigator.clipboard.writeText(text).then(() => notifications.show({ message: `${what} is copied`, autoClose: 1500 })),
    }),
    [addFilter, toggleColumn],
  );
  const runQuery = useCallback(
    (text: string, language: Language) => {
      if (text === latest.current.text && language === latest.current.language) again();
      else update({ text, language });
    },
    [again, update],
  );

  const { sample } = run;
  const total = sample.result?.total ?? null;
  const failure = refused ?? run.error;
  const inQuery = failure instanceof ApiError && (failure.position !== undefined || failure.status === 400) ? failure : null;
  // What comes after the first rows is drawn when there is time.
  const histogram = useDeferredValue(run.histogram);
  const cardinality = useDeferredValue(run.cardinality);
  const columnNames = useMemo(() => state.columns.map(({ name }) => name), [state.columns]);
  const shown = useMemo(() => run.opened?.time && { from: run.opened.time.from_ms, to: run.opened.time.to_ms }, [run.opened]);
  const narrowed = state.text !== '' || state.filters.some((filter) => !filter.off);

  return (
    <div className={classes.page}>
      <h1 className={classes.hidden}>Discover</h1>
      <div className={classes.bar}>
        <SourcePicker source={source} sources={sources} onPick={(source) => update({ source, filters: state.filters.filter((filter) => filter.pin), columns: [], sort: [], splitBy: undefined })} />
        <div className={classes.query}>
          <QueryBar text={state.text} language={state.language} error={inQuery} running={run.running} question={question} onRun={runQuery} onCancel={cancel} />
        </div>
        <TimePicker
          range={state.range}
          refreshMs={state.refreshMs}
          live={state.live}
          shown={shown ?? null}
          onChange={setRange}
          onRefresh={(refreshMs) => update({ refreshMs }, { replace: true })}
          onLive={(live) => update({ live }, { replace: true })}
        />
      </div>
      <div className={classes.pills}>
        <FilterBar filters={state.filters} fields={fieldList} onChange={(filters) => update({ filters })} />
      </div>
      <Notices problems={problems} failure={inQuery ? null : failure} sourcesError={source === '' ? sources.error : null} onRetry={again} />
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
            question={pinned}
            onFilter={addFilter}
            onColumn={toggleColumn}
            onRetry={again}
            onGoOn={() => goOn('cardinality')}
            onBackground={() => {}}
          />
          <div className={classes.content}>
            <div className={classes.summaryBar}>
              <Total total={total} stale={sample.stale} status={sample.status} />
              {sample.tookMs !== null && !sample.stale && (
                <Text size="xs" c="dimmed">
                  {format.duration(sample.tookMs)}
                  {sample.cached && ', as before'}
                </Text>
              )}
            </div>
            {timeField !== null && (
              <Histogram
                stage={histogram}
                fields={fieldList}
                splitBy={state.splitBy}
                interval={state.interval}
                onRange={setRange}
                onSplit={(splitBy) => update({ splitBy }, { replace: true })}
                onInterval={(interval) => update({ interval }, { replace: true })}
                onFilter={(field, value, not) => addFilter({ op: 'is', field, value }, not)}
                onRetry={again}
                onGoOn={() => goOn('histogram')}
                onBackground={() => {}}
              />
            )}
            {run.error === null && <StageState name="The table" stage={sample} onRetry={again} />}
            {sample.result === null && sample.status === 'loading' ? (
              <Loading label="Events" />
            ) : (
              <EventTable
                rows={rows}
                fresh={NONE as Hit[]}
                columns={state.columns}
                sort={state.sort}
                timeField={timeField}
                fields={fieldsByName}
                first={fields.data?.columns ?? NONE}
                total={total?.value ?? null}
                stale={sample.stale}
                empty={
                  sample.status === 'done' && pinned ? (
                    <Suspense>
                      <NoHits question={pinned} narrowed={narrowed} onRange={setRange} onWiden={() => update({ text: '', filters: [] })} />
                    </Suspense>
                  ) : null
                }
                actions={actions}
                onColumns={(columns) => update({ columns }, { replace: true })}
                onSort={(sort) => update({ sort })}
              />
            )}
          </div>
        </div>
      )}
    </div>
  );
}

/** Left beside the list of fields: the server chooses bars that fit. */
function chartWidth(): number {
  // In steps, so that a window that is a little wider asks the same.
  return Math.max(300, Math.round((window.innerWidth - 340) / 100) * 100);
}

function Total({ total, stale, status }: { total: { value: number; relation: string } | null; stale: boolean; status: string }) {
  const format = useFormat();
  if (!total || stale) return <span className={classes.total}>{status === 'loading' ? 'Searching…' : ''}</span>;
  return (
    <span className={classes.total} role="status" data-total={total.value}>
      {total.relation === 'gte' && 'at least '}
      {format.number(total.value)} {total.value === 1 ? 'event' : 'events'}
    </span>
  );
}

interface NoticesProps {
  problems: string[];
  failure: unknown;
  sourcesError: unknown;
  onRetry: () => void;
}

/** What is wrong with the whole of the page. */
function Notices({ problems, failure, sourcesError, onRetry }: NoticesProps) {
  const failed = failure !== null && failure !== undefined;
  if (problems.length === 0 && !failed && !sourcesError) return null;
  return (
    <div className={classes.notices}>
      {problems.length > 0 && (
        <Alert color="yellow" p="xs" role="alert" title="Part of this address cannot be read, and is left out">
          {problems.join('; ')}
        </Alert>
      )}
      {sourcesError !== null && <Failed compact title="Sources are not known: pick one by its name" error={sourcesError} />}
      {failed && <Failed compact title="No answer" error={failure} retry={onRetry} />}
    </div>
  );
}

/** Asks again so long after each answer. */
function useAutoRefresh(everyMs: number, running: boolean, again: () => void) {
  useEffect(() => {
    if (everyMs <= 0 || running) return;
    const timer = window.setTimeout(again, everyMs);
    return () => window.clearTimeout(timer);
  }, [everyMs, running, again]);
}
