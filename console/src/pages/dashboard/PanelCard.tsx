import { ActionIcon, Anchor, Button, Group, Paper, Progress, Stack, Text, Title, useComputedColorScheme } from '@mantine/core';
import { IconDots, IconSnowflake } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useId, useMemo, useState } from 'react';
import { Link } from 'react-router';
import { fetchSaved, type SavedSearchState } from '../../api/saved';
import type { BucketKey } from '../../api/search';
import type { Source } from '../../api/sources';
import { useFormat } from '../../app/preferences';
import { Bars } from '../../components/Bars';
import { inks, restColor, statusColor, valueColors } from '../../components/chart-colors';
import { Empty } from '../../components/Empty';
import { Failed } from '../../components/Failed';
import { Loading } from '../../components/Loading';
import { Menu } from '../../components/Menu';
import { Partial } from '../../components/Partial';
import { TimeChart } from '../../components/TimeChart';
import classes from './dashboard.module.css';
import { discoverAddress, OTHER, type PanelContext, panelSearch, questionOf, readPanel, sourceFacts, sourceOf, type TimeResult, type TopResult } from './search';
import type { Panel } from './state';
import { type PanelRun, usePanel } from './use-panel';

const CHART_PX = 190;

interface Props {
  panel: Panel;
  /** Context of all panels; the time field depends on the panel's source. */
  shared: Omit<PanelContext, 'timeField'>;
  sources: Source[];
  round: number;
  onEdit: () => void;
  onRemove: () => void;
  onRetry: () => void;
  /** Called with a panel id when its search starts or ends. */
  onBusy: (panel: string, busy: boolean) => void;
  /** Filters the whole dashboard by a value. */
  onValue: (field: string, value: BucketKey) => void;
}

/** Panel of a dashboard: chart, warnings about missing shards, and a link to its events. */
export function PanelCard({ panel, shared, sources, round, onEdit, onRemove, onRetry, onBusy, onValue }: Props) {
  const format = useFormat();
  /** Request whose cost the user has accepted. A longer time range has another cost. */
  const [accepted, setAccepted] = useState<string | null>(null);
  const saved = useQuery({
    queryKey: ['saved', 'search', panel.saved],
    queryFn: ({ signal }) => fetchSaved<SavedSearchState>('search', panel.saved ?? '', signal),
    enabled: panel.saved !== undefined,
  });
  const own = panel.saved === undefined ? (panel.search ?? '') : (saved.data?.state.search ?? null);
  const { timeField, frozen } = sourceFacts(sourceOf(own ?? '', shared), sources);
  const context = useMemo<PanelContext>(() => ({ ...shared, timeField }), [shared, timeField]);
  const made = useMemo(() => {
    if (own === null || panel.field === '') return { search: null, error: null };
    try {
      return { search: panelSearch(panel, own, context), error: null };
    } catch (error) {
      return { search: null, error };
    }
  }, [panel, own, context]);
  const question = useMemo(() => (made.search && frozen ? questionOf(own ?? '', context) : null), [made.search, own, context, frozen]);
  const asked = question && JSON.stringify([question, panel.kind, panel.field]);
  const run = usePanel({ search: made.search, panel, estimateOf: asked === accepted ? null : question, round });
  const busy = made.search !== null && run.status === 'running';
  const id = useId();
  useEffect(() => {
    onBusy(id, busy);
    return () => onBusy(id, false);
  }, [id, busy, onBusy]);
  const error = saved.error ?? made.error;
  return (
    <Paper component="section" withBorder className={classes.panel ?? ''} aria-label={panel.title} aria-busy={busy}>
      <Group gap={6} wrap="nowrap" mb={6}>
        <Title order={2} size="h6" className={classes.title ?? ''}>
          {panel.title}
        </Title>
        <Text size="xs" c="dimmed" ff="monospace" className={classes.field ?? ''}>
          {panel.field}
        </Text>
        <Menu position="bottom-end">
          <Menu.Target>
            <ActionIcon variant="subtle" color="gray" size="sm" ms="auto" aria-label={`Actions for panel ${panel.title}`}>
              <IconDots size={16} aria-hidden />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            {/* The target depends on the saved search, which is still loading. */}
            {own === null ? (
              <Menu.Item disabled>Open in Discover</Menu.Item>
            ) : (
              <Menu.Item component={Link} to={`/discover?${discoverAddress(own, context)}`}>
                Open in Discover
              </Menu.Item>
            )}
            <Menu.Item onClick={onRetry}>Refresh</Menu.Item>
            <Menu.Item onClick={onEdit}>Edit</Menu.Item>
            <Menu.Item color="red" onClick={onRemove}>
              Remove
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      </Group>
      <Progressing run={run} />
      {error !== null && <Failed compact title={panel.title} error={error} />}
      {panel.field === '' && (
        <Empty title="No suitable field found">
          <Button size="compact-sm" variant="default" onClick={onEdit}>
            Select a field
          </Button>
        </Empty>
      )}
      {error === null && panel.field !== '' && (
        <State run={run} panel={panel} onRetry={onRetry} onAccept={() => setAccepted(asked)}>
          {(result) =>
            result.kind === 'time' ? (
              <OverTime result={result} field={panel.field} intervalMs={made.search?.intervalMs ?? 0} title={panel.title} />
            ) : (
              <>
                <Bars
                  label={panel.title}
                  max={result.values[0]?.count ?? 0}
                  bars={[
                    ...result.values.map(({ key, text, count }) => ({
                      key: text,
                      label: (
                        <Anchor component="button" type="button" size="sm" dir="auto" className={classes.value ?? ''} onClick={() => onValue(panel.field, key)} title={`Include ${text}`}>
                          {text === '' ? '(empty)' : text}
                        </Anchor>
                      ),
                      value: count,
                      text: `${format.number(count)} · ${format.percent((count / result.total) * 100)}`,
                    })),
                    ...[
                      { key: ' other', label: 'Other values', count: result.other },
                      { key: ' missing', label: 'Missing value', count: result.missing },
                    ].flatMap(({ key, label, count }) =>
                      count > 0 ? [{ key, label: <Text span size="sm" c="dimmed" fs="italic">{label}</Text>, value: 0, text: `${format.number(count)} · ${format.percent((count / result.total) * 100)}` }] : [],
                    ),
                  ]}
                />
                <Text size="xs" c="dimmed" mt={4}>
                  Percentages of {format.number(result.total)} {result.total === 1 ? 'event' : 'events'}
                </Text>
              </>
            )
          }
        </State>
      )}
    </Paper>
  );
}

/** Progress bar: share of the shards that have answered. */
function Progressing({ run }: { run: PanelRun }) {
  if (run.status !== 'running' || !run.found) return <div className={classes.progress} />;
  const { total, successful, failed } = run.found.response._shards;
  const share = run.stale || total === 0 ? 0 : ((successful + failed) / total) * 100;
  return <Progress className={classes.progress ?? ''} size={2} value={share} animated aria-label="Completed shards" />;
}

interface StateProps {
  run: PanelRun;
  panel: Panel;
  onRetry: () => void;
  onAccept: () => void;
  children: (result: TimeResult | TopResult) => ReactNode;
}

/** Loading, frozen, failed, empty and partial state of a panel. */
function State({ run, panel, onRetry, onAccept, children }: StateProps) {
  const format = useFormat();
  const result = useMemo(() => run.found && readPanel(panel, run.found.response), [run.found, panel]);
  if (run.status === 'failed') return <Failed compact title="Request failed" error={run.error} retry={onRetry} />;
  if (run.status === 'estimate' && run.estimate) {
    const { ms, requests, bytes } = run.estimate;
    return (
      <Stack align="center" gap="xs" p="lg" ta="center" role="status">
        <IconSnowflake size={26} stroke={1.4} color="var(--mantine-color-anchor)" aria-hidden />
        <Text size="sm">
          Part of this data is frozen. Reading it takes about <b>{format.duration(ms)}</b>, {format.number(requests)} requests and {format.bytes(bytes)}.
        </Text>
        <Button size="compact-sm" onClick={onAccept}>
          Run anyway
        </Button>
      </Stack>
    );
  }
  if (!run.found || !result) return run.status === 'done' ? <Empty title="No events found" /> : <Loading label="Searching" />;
  const { _shards: shards, timed_out: timedOut } = run.found.response;
  const complaint = shards.failed > 0 ? `${format.number(shards.failed)} of ${format.number(shards.total)} shards failed` : timedOut ? 'Timed out; results are partial' : null;
  return (
    <div className={run.stale ? classes.stale : undefined}>
      {complaint !== null && run.status === 'done' && <Partial title={complaint} failures={shards.failures ?? []} />}
      {result.total > 0 ? children(result) : run.status === 'done' ? <Empty title="No events found">Try a longer time range or fewer filters.</Empty> : <Loading label="Searching" />}
    </div>
  );
}

function OverTime({ result, field, intervalMs, title }: { result: TimeResult; field: string; intervalMs: number; title: string }) {
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const series = useMemo(() => {
    // Next to status colors, other values have no color.
    const hasStatuses = result.series.some(({ label }) => statusColor(label, dark) !== null);
    const named = result.series.map(({ label }) => label).filter((label) => label !== OTHER);
    const colors = hasStatuses ? [] : valueColors(field, named, dark);
    const color = (label: string) => statusColor(label, dark) ?? (hasStatuses ? inks(dark).ink : (colors[named.indexOf(label)] ?? restColor(dark)));
    return result.series.map(({ label, values }) => ({ label, values, color: color(label) }));
  }, [result, field, dark]);
  return <TimeChart label={`${title}: ${format.number(result.total)} events`} times={result.times} intervalMs={intervalMs} series={series} kind="bars" show={format.compact} height={CHART_PX} />;
}
