import { Anchor, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import { type AlertDocument, type AlertState, type AlertStep, searchParts } from '../../api/alerts';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { dateMs } from '../../lib/event-fields';
import { Facts } from './Facts';
import { alertPath, stepPath } from './links';
import { StatusBadge } from './StatusBadge';

interface Props {
  alert: AlertDocument;
  state: AlertState;
}

/** What a rule over several events has found: its window, its value against the baseline, and the steps. */
export function WindowSection({ alert, state }: Props) {
  const format = useFormat();
  const { window } = state;
  if (!window) return null;
  const [from, to] = [dateMs(window.start), dateMs(window.end)];
  return (
    <Facts
      title="Window"
      rows={[
        ['From', from === null ? null : format.time(from)],
        ['To', to === null ? null : format.time(to)],
        ['Length', from === null || to === null || to < from ? null : format.duration(to - from)],
        ['Value', window.value === undefined ? null : format.number(window.value)],
        ['Baseline', window.baseline === undefined ? null : `${format.number(window.baseline)} events per window`],
        ['Change', window.baseline === undefined || window.value === undefined ? null : changeText(window.value, window.baseline, format.percent)],
      ]}
    >
      {window.steps && window.steps.length > 0 && <Steps alert={alert} state={state} steps={window.steps} />}
    </Facts>
  );
}

/** A value against its baseline: `3 times the baseline`, `80% below the baseline`. */
export function changeText(value: number, baseline: number, percent: (value: number) => string): string {
  if (baseline === 0) return 'no events before';
  const change = (value / baseline - 1) * 100;
  return `${percent(Math.abs(change))} ${change < 0 ? 'below' : 'above'} the baseline`;
}

/** Steps of a sequence with the times of their events. */
function Steps({ alert, state, steps }: Props & { steps: AlertStep[] }) {
  const format = useFormat();
  return (
    <Table.ScrollContainer minWidth={480}>
      <Table aria-label="Steps">
        <Table.Thead>
          <Table.Tr>
            <Table.Th ta="end" w={40}>
              #
            </Table.Th>
            <Table.Th>Step</Table.Th>
            <Table.Th>Time</Table.Th>
            <Table.Th ta="end">After the step before</Table.Th>
            <Table.Th>Event</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {steps.map((step, at) => {
            const [ms, beforeMs] = [dateMs(step.time), dateMs(steps[at - 1]?.time)];
            const path = stepPath(state, alert, step);
            return (
              <Table.Tr key={at}>
                <Table.Td ta="end">{at + 1}</Table.Td>
                <Table.Td style={{ overflowWrap: 'anywhere' }}>{step.name}</Table.Td>
                <Table.Td>{ms === null ? step.time : format.time(ms)}</Table.Td>
                <Table.Td ta="end">{ms === null || beforeMs === null ? '' : gapText(ms - beforeMs, format.duration)}</Table.Td>
                <Table.Td>
                  {path && (
                    <Anchor component={Link} to={path} size="sm" aria-label={`Event of ${step.name} in Discover`}>
                      Discover
                    </Anchor>
                  )}
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Time since the step before. Steps in any order may be before it. */
const gapText = (ms: number, duration: (ms: number) => string) => (ms < 0 ? `−${duration(-ms)}` : duration(ms));

/** Alerts of the rules of a correlation, if they raise alerts of their own. */
export function Parts({ alert, state }: Props) {
  const format = useFormat();
  const { window } = state;
  const rule = alert.rule?.id;
  const parts = useQuery({
    queryKey: ['alerts', 'parts', rule, alert.tenant, window],
    queryFn: ({ signal }) => searchParts(rule ?? '', alert.tenant, window ?? {}, signal),
    enabled: rule !== undefined && window?.start !== undefined && window.end !== undefined,
  });
  if (parts.error) return <Failed title="Alerts of the correlation's rules: request failed" error={parts.error} retry={() => void parts.refetch()} compact />;
  const hits = parts.data?.hits.hits ?? [];
  const total = parts.data?.hits.total?.value ?? hits.length;
  if (hits.length === 0) return null;
  return (
    <Facts title="Alerts of the correlation's rules" rows={[]}>
      <Table.ScrollContainer minWidth={480}>
        <Table aria-label="Alerts of the correlation's rules">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Rule</Table.Th>
              <Table.Th>Event time</Table.Th>
              <Table.Th>Status</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {hits.map((hit) => {
              const state = hit._source.firn?.alert;
              const ms = dateMs(state?.event?.time);
              return (
                <Table.Tr key={`${hit._index}/${hit._id}`}>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>
                    <Anchor component={Link} to={alertPath(hit)} size="sm">
                      {hit._source.rule?.name ?? hit._source.rule?.id}
                    </Anchor>
                  </Table.Td>
                  <Table.Td>{ms === null ? '–' : format.time(ms)}</Table.Td>
                  <Table.Td>{state && <StatusBadge status={state.status} />}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {total > hits.length && (
        <Text size="sm" c="dimmed">
          The first {format.number(hits.length)} of {format.number(total)}
        </Text>
      )}
    </Facts>
  );
}
