import { Anchor, Button, Chip, Group, Paper, SegmentedControl, Stack, Text, TextInput, useComputedColorScheme } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useState } from 'react';
import { Link, useSearchParams } from 'react-router';
import { type AlertHit, type AlertsResponse, type AlertStatus, type ChangeResult, searchAlerts, type Severity } from '../../api/alerts';
import { useFormat } from '../../app/preferences';
import { useSession } from '../../app/session-context';
import { Answer } from '../../components/Answer';
import { valueColors } from '../../components/chart-colors';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { Partial as PartialAnswer } from '../../components/Partial';
import { TimeChart } from '../../components/TimeChart';
import { isReversed, resolveBound, REVERSED } from '../../lib/time-range';
import { TimePicker } from '../discover/TimePicker';
import { AlertDrawer } from './AlertDrawer';
import { AlertTable, type Selected } from './AlertTable';
import { type Change, ChangeFailures, ChangeStatus } from './ChangeStatus';
import { alertsBody, intervalMs, keyOf, matchingQuery, nameOf, PAGE_SIZE, readAlerts, ROWS_MAX } from './search';
import { type AlertsState, decodeState, EMPTY_STATE, encodeState } from './state';

const NONE: ReadonlySet<string> = new Set();

/** Alerts of detection rules, of the tenants that the user may see. */
export default function Alerts() {
  const format = useFormat();
  const { session } = useSession();
  const isOperator = session.operator && session.view_as === null;
  const client = useQueryClient();
  const [params, setParams] = useSearchParams();
  const search = params.toString();
  const state = useMemo(() => decodeState(search), [search]);
  const [rows, setRows] = useState(PAGE_SIZE);
  const [selected, setSelected] = useState<Selected>(NONE);
  const [change, setChange] = useState<Change | null>(null);
  const [result, setResult] = useState<ChangeResult | null>(null);
  const update = useCallback(
    (patch: Partial<AlertsState>) => setParams((before) => new URLSearchParams(encodeState({ ...decodeState(before.toString()), ...patch })), { replace: 'open' in patch || 'refreshMs' in patch }),
    [setParams],
  );
  /** Changes a filter: the table starts at its top again, without a selection. */
  const filter = (patch: Partial<AlertsState>) => {
    setRows(PAGE_SIZE);
    setSelected(NONE);
    update(patch);
  };
  const open = useCallback((hit: AlertHit) => update({ open: nameOf(hit) }), [update]);
  const { range, status, severities, text, refreshMs } = state;
  const asked = { range, status, severities, text };
  const alerts = useQuery({
    queryKey: ['alerts', 'list', asked, rows, format.zone],
    queryFn: async ({ signal }) => {
      const nowMs = Date.now();
      return { response: await searchAlerts(alertsBody(state, { rows, zone: format.zone, nowMs }), signal), intervalMs: intervalMs(state, nowMs, format.zone), rows };
    },
    refetchInterval: refreshMs > 0 ? refreshMs : false,
    placeholderData: keepPreviousData,
  });
  const nowMs = alerts.dataUpdatedAt;
  const shown = { from: resolveBound(range.from, 'from', nowMs, format.zone), to: resolveBound(range.to, 'to', nowMs, format.zone) };
  const changed = async (result: ChangeResult) => {
    setResult(result);
    setSelected(NONE);
    await client.invalidateQueries({ queryKey: ['alerts'] });
  };
  return (
    <PageFrame title="Alerts" about="Matches of detection rules in events, newest first.">
      <Stack gap="sm">
        <Group gap="sm" align="flex-start">
          <QueryField key={text} text={text} onQuery={(next) => filter({ text: next })} />
          <TimePicker
            range={range}
            refreshMs={refreshMs}
            error={isReversed(range, nowMs, format.zone) ? REVERSED : null}
            shown={shown}
            onChange={(next) => filter({ range: next })}
            onRefresh={(ms) => update({ refreshMs: ms })}
          />
          <Button size="xs" h={32} variant="default" onClick={() => void alerts.refetch()}>
            Refresh
          </Button>
        </Group>
        {result && <ChangeFailures result={result} onClose={() => setResult(null)} />}
        <Answer query={alerts} what="Alerts">
          {(found) => (
            <Found
              found={found}
              state={state}
              isOperator={isOperator}
              selected={selected}
              onFilter={filter}
              onSelect={setSelected}
              onOpen={open}
              onChange={setChange}
              onMore={rows < ROWS_MAX ? () => setRows(rows + PAGE_SIZE) : null}
              loadingMore={alerts.isPlaceholderData && found.rows < rows}
              stale={alerts.isPlaceholderData && found.rows === rows}
            />
          )}
        </Answer>
      </Stack>
      {state.open && <AlertDrawer name={state.open} isOperator={isOperator} onChange={setChange} onClose={() => update({ open: null })} />}
      {change && <ChangeStatus change={change} onDone={changed} onClose={() => setChange(null)} />}
    </PageFrame>
  );
}

/** KQL filter; Enter applies it. */
function QueryField({ text, onQuery }: { text: string; onQuery: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  return (
    <form
      style={{ flex: 1, minWidth: 260 }}
      onSubmit={(event) => {
        event.preventDefault();
        onQuery(typed);
      }}
    >
      <TextInput
        size="xs"
        styles={{ input: { height: 32 } }}
        ff="monospace"
        aria-label="Filter alerts (KQL)"
        placeholder='Filter alerts (KQL), such as host.name: "web-1"'
        leftSection={<IconSearch size={14} aria-hidden />}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}

interface FoundProps {
  found: { response: AlertsResponse; intervalMs: number };
  state: AlertsState;
  isOperator: boolean;
  selected: Selected;
  onFilter: (patch: Partial<AlertsState>) => void;
  onSelect: (selected: Selected) => void;
  onOpen: (hit: AlertHit) => void;
  onChange: (change: Change) => void;
  /** Null if the table has as many rows as it may have. */
  onMore: (() => void) | null;
  loadingMore: boolean;
  /** Whether the rows belong to the previous filters. */
  stale: boolean;
}

function Found({ found, state, isOperator, selected, onFilter, onSelect, onOpen, onChange, onMore, loadingMore, stale }: FoundProps) {
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const { response } = found;
  const { total, hits, times, series, statuses, severities } = useMemo(() => readAlerts(response), [response]);
  const colored = useMemo(() => {
    const colors = valueColors('firn.alert.severity', SHOWN_FIRST, dark);
    return series.map(({ severity, values }) => ({ label: severity, values, color: colors[SHOWN_FIRST.indexOf(severity)] as string }));
  }, [series, dark]);
  const all = statuses.reduce((sum, { count }) => sum + count, 0);
  const newest = hits[0]?._source['@timestamp'] ?? '';
  const failed = response._shards.failed;
  return (
    <>
      {(failed > 0 || response.timed_out) && (
        <PartialAnswer
          title={failed > 0 ? `Some alerts may be missing: ${format.number(failed)} of ${format.number(response._shards.total)} shards failed` : 'Some alerts may be missing: the search timed out'}
          failures={response._shards.failures ?? []}
        />
      )}
      <Group gap="sm">
        <div style={{ maxWidth: '100%', overflowX: 'auto' }}>
          <SegmentedControl
            size="xs"
            aria-label="Status"
            data={[...statuses.map(({ status, count }) => ({ value: status as string, label: `${STATUS_LABELS[status]} (${format.number(count)})` })), { value: 'all', label: `All (${format.number(all)})` }]}
            value={state.status}
            onChange={(status) => onFilter({ status: status as AlertsState['status'] })}
          />
        </div>
        <Chip.Group multiple value={state.severities} onChange={(severities) => onFilter({ severities: severities as Severity[] })}>
          <Group gap={6} role="group" aria-label="Severity">
            {severities.toReversed().map(({ severity, count }) => (
              <Chip key={severity} size="xs" variant="outline" value={severity}>
                {severity} ({format.number(count)})
              </Chip>
            ))}
          </Group>
        </Chip.Group>
      </Group>
      {total === 0 ? (
        <NoAlerts filtered={all > 0 || state.text !== '' || state.severities.length > 0 || state.status !== EMPTY_STATE.status} isOperator={isOperator} />
      ) : (
        <>
          <Paper withBorder p="sm" bg="var(--firn-surface)">
            <TimeChart label="Alerts over time by severity" times={times} intervalMs={found.intervalMs} series={colored} kind="bars" show={format.number} height={150} />
          </Paper>
          <div data-stale={stale || undefined}>
            <AlertTable
              hits={hits}
              total={total}
              selected={selected}
              status={state.status}
              openKey={state.open && keyOf({ _index: state.open.index, _id: state.open.id } as AlertHit)}
              showTenant={isOperator}
              matching={{ query: matchingQuery(state, newest, format.zone) }}
              onSelect={onSelect}
              onOpen={onOpen}
              onChange={onChange}
            />
          </div>
          {hits.length < total && (
            <Group justify="center">
              {onMore ? (
                <Button size="xs" variant="default" loading={loadingMore} onClick={onMore}>
                  Show more
                </Button>
              ) : (
                <Text size="sm" c="dimmed">
                  The table shows at most {format.number(ROWS_MAX)} alerts. Select a shorter time range or more filters.
                </Text>
              )}
            </Group>
          )}
        </>
      )}
    </>
  );
}

const STATUS_LABELS: Record<AlertStatus, string> = { open: 'Open', acknowledged: 'Acknowledged', closed: 'Closed' };
/** All severities: each has the same color in every chart. */
const SHOWN_FIRST: Severity[] = ['critical', 'high', 'medium', 'low', 'informational'];

function NoAlerts({ filtered, isOperator }: { filtered: boolean; isOperator: boolean }) {
  if (filtered) return <Empty title="No matching alerts">Select another status, a longer time range or fewer filters.</Empty>;
  return (
    <Empty title="No alerts">
      {isOperator ? (
        <>
          Event pipelines raise alerts for events that match a rule. <Anchor component={Link} to="/rules" size="sm" underline="always">Create or import rules</Anchor>, or select a longer time range.
        </>
      ) : (
        'Alerts appear here when an event matches a detection rule. The operator of this server maintains the rules.'
      )}
    </Empty>
  );
}
