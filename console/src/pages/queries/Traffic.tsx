import { Anchor, Group, Paper, SegmentedControl, Select, Stack, Switch, Title, useComputedColorScheme } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { search } from '../../api/search';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { seriesColor } from '../../components/chart-colors';
import { Empty } from '../../components/Empty';
import { Figure } from '../../components/Figure';
import { Partial } from '../../components/Partial';
import { TimeChart } from '../../components/TimeChart';
import { TenantTable } from './TenantTable';
import { intervalMs, RANGES, readTraffic, readView, SORTS, TRAFFIC_STREAM, trafficBody, type TrafficRecord, type TrafficView, writeView } from './traffic';
import { TrafficTable } from './TrafficTable';

const REFRESH_MS = 15_000;

export function Traffic() {
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const [params, setParams] = useSearchParams();
  const view = readView(params);
  const change = (part: Partial<TrafficView>) => setParams((before) => writeView({ ...readView(before), ...part }, before), { replace: true });
  const traffic = useQuery({
    queryKey: ['traffic', view, format.zone],
    queryFn: ({ signal }) => search<TrafficRecord>(TRAFFIC_STREAM, trafficBody(view, format.zone), signal),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const seen = useMemo(() => (traffic.data ? readTraffic(traffic.data) : null), [traffic.data]);
  const series = useMemo(
    () =>
      (['p50', 'p95', 'p99'] as const).map((name, at) => ({
        label: name === 'p50' ? 'Median' : name,
        color: seriesColor(at, dark),
        values: seen?.percentiles.map((point) => point[name]) ?? [],
      })),
    [seen, dark],
  );
  const milliseconds = (value: number | null | undefined) => (value === null || value === undefined ? '–' : format.duration(value));
  return (
    <Stack>
      <Group gap="sm">
        <SegmentedControl size="xs" aria-label="Time range" data={RANGES.map(({ value, label }) => ({ value, label }))} value={view.range} onChange={(range) => change({ range })} />
        <Select
          size="xs"
          aria-label="Request type"
          placeholder="All request types"
          clearable
          searchable
          data={[...new Set([...(seen?.names ?? []), ...(view.name ? [view.name] : [])])]}
          value={view.name}
          onChange={(name) => change({ name })}
        />
        {view.tenant && (
          <Anchor component="button" type="button" size="xs" onClick={() => change({ tenant: null })}>
            Only tenant {view.tenant}: show all
          </Anchor>
        )}
        <Switch size="xs" label="Failed only" checked={view.onlyFailed} onChange={(event) => change({ onlyFailed: event.currentTarget.checked })} />
      </Group>
      <Answer query={traffic} what="Traffic">
        {(response) => {
          if (!seen || (seen.total === 0 && response._shards.total === 0)) {
            return <Empty title="Traffic is not recorded">Recorded when authentication or traffic.enabled is on.</Empty>;
          }
          if (seen.total === 0) return <Empty title="No matching requests">Select a longer time range or fewer filters.</Empty>;
          return (
            <Stack>
              {response._shards.failed > 0 && <Partial title="Part of the traffic log could not be read" failures={response._shards.failures ?? []} />}
              <Group gap="sm" align="stretch">
                <Figure label="Requests" value={format.number(seen.total)} />
                <Figure label="Failed" value={format.number(seen.failed)} detail={format.percent((seen.failed / seen.total) * 100)} />
                <Figure label="Median" value={milliseconds(seen.took.p50)} />
                <Figure label="p95" value={milliseconds(seen.took.p95)} />
                <Figure label="p99" value={milliseconds(seen.took.p99)} />
              </Group>
              <Paper withBorder p="sm" bg="var(--firn-surface)">
                <Title order={2} size="h5" mb="xs">
                  Latency
                </Title>
                <TimeChart label="Latency percentiles over time" times={seen.times} intervalMs={intervalMs(view)} series={series} kind="lines" show={format.duration} height={190} />
              </Paper>
              {seen.tenants.length > 0 && <TenantTable tenants={seen.tenants} onPick={(tenant) => change({ tenant })} />}
              <Group justify="space-between">
                <Title order={2} size="h5">
                  Requests
                </Title>
                <SegmentedControl size="xs" aria-label="Order" data={SORTS} value={view.sort} onChange={(sort) => change({ sort: sort as TrafficView['sort'] })} />
              </Group>
              <TrafficTable records={seen.records} onTenant={(tenant) => change({ tenant })} />
            </Stack>
          );
        }}
      </Answer>
    </Stack>
  );
}
