import { Anchor, Button, Drawer, Group, Stack, Table, Text, Title } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { type AlertDocument, type AlertHit, type AlertName, type AlertState, type ChangeResult, fetchAlert, resendAlerts, STATUSES } from '../../api/alerts';
import { fetchFields } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Failed } from '../../components/Failed';
import { useReturnFocus } from '../../components/return-focus';
import { SeverityBadge } from '../../components/SeverityBadge';
import { dateMs } from '../../lib/event-fields';
import EventDetail from '../discover/EventDetail';
import { ACTIONS, type Change } from './ChangeStatus';
import { eventFields, eventPath, groupText, surroundingPath, webAddress, windowPath } from './links';
import { StatusBadge } from './StatusBadge';

interface Props {
  name: AlertName;
  isOperator: boolean;
  onChange: (change: Change) => void;
  onClose: () => void;
}

/** Drawer with one alert: state, rule, threat, deliveries and the fields of its event. */
export function AlertDrawer({ name, isOperator, onChange, onClose }: Props) {
  useReturnFocus();
  const alert = useQuery({ queryKey: ['alerts', 'alert', name], queryFn: ({ signal }) => fetchAlert(name, signal) });
  return (
    <Drawer opened onClose={onClose} position="right" size="xl" title="Alert" closeButtonProps={{ 'aria-label': 'Close details' }}>
      <Answer query={alert} what="Alert">
        {(hit) => <Detail hit={hit} name={name} isOperator={isOperator} onChange={onChange} onResent={() => void alert.refetch()} />}
      </Answer>
    </Drawer>
  );
}

interface DetailProps {
  hit: AlertHit;
  name: AlertName;
  isOperator: boolean;
  onChange: (change: Change) => void;
  onResent: () => void;
}

function Detail({ hit, name, isOperator, onChange, onResent }: DetailProps) {
  const { _source: alert } = hit;
  const state: AlertState = alert.firn?.alert ?? { status: 'open', severity: 'medium' };
  const fields = useQuery({ queryKey: ['discover', 'fields', { index: name.index }], queryFn: ({ signal }) => fetchFields({ index: name.index }, signal) });
  const byName = new Map(fields.data?.fields.map((field) => [field.name, field]));
  const [event, surrounding, window] = [eventPath(state), surroundingPath(state), windowPath(state)];
  return (
    <Stack gap="md">
      <div>
        <Group gap="xs" mb={4}>
          <SeverityBadge severity={state.severity} />
          <StatusBadge status={state.status} />
        </Group>
        <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }}>
          {alert.rule?.name ?? alert.rule?.id}
        </Title>
      </div>
      <Group gap="xs">
        {STATUSES.filter((status) => status !== state.status).map((status) => (
          <Button key={status} size="xs" variant="default" onClick={() => onChange({ status, selection: { alerts: [name] }, count: 1 })}>
            {ACTIONS[status]}
          </Button>
        ))}
        {event && (
          <Button component={Link} to={event} size="xs" variant="subtle">
            Event in Discover
          </Button>
        )}
        {surrounding && (
          <Button component={Link} to={surrounding} size="xs" variant="subtle">
            Surrounding events
          </Button>
        )}
        {window && (
          <Button component={Link} to={window} size="xs" variant="subtle">
            Events in Discover
          </Button>
        )}
      </Group>
      {!event && !state.window && (
        <Text size="sm" c="dimmed">
          The event is not linked: its index rejected it, or its batch was interrupted.
        </Text>
      )}
      <StateSection alert={alert} state={state} />
      <RuleSection alert={alert} state={state} isOperator={isOperator} />
      <ThreatSection alert={alert} />
      <Deliveries state={state} name={name} isOperator={isOperator} onResent={onResent} />
      <section>
        <Title order={3} size="h6" mb={4}>
          Event
        </Title>
        <EventDetail hit={{ ...hit, _source: eventFields(alert) }} columns={[]} fields={byName} actions={null} />
      </section>
    </Stack>
  );
}

/** Section with a title and a list of names with values; names without a value are left out. */
function Facts({ title, rows, children }: { title: string; rows: (readonly [string, ReactNode])[]; children?: ReactNode }) {
  const filled = rows.filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (filled.length === 0 && !children) return null;
  return (
    <section>
      <Title order={3} size="h6" mb={4}>
        {title}
      </Title>
      <Table aria-label={title} verticalSpacing={3} layout="fixed" withRowBorders={false}>
        <Table.Tbody>
          {filled.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th w={160} fw={400} c="dimmed" style={{ verticalAlign: 'top' }} scope="row">
                {label}
              </Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {children}
    </section>
  );
}

function StateSection({ alert, state }: { alert: AlertDocument; state: AlertState }) {
  const format = useFormat();
  const time = (value: unknown) => {
    const ms = dateMs(value);
    return ms === null ? null : format.time(ms);
  };
  const { changed } = state;
  return (
    <Facts
      title="State"
      rows={[
        ['Detected', time(alert['@timestamp'])],
        ['Event time', time(state.event?.time)],
        ['Events', state.count === undefined ? null : format.number(state.count)],
        ['Last event', time(state.last_event_time)],
        ['Window', state.window && `${time(state.window.start) ?? '–'} to ${time(state.window.end) ?? '–'}`],
        ['Value', state.window?.value === undefined ? null : format.number(state.window.value)],
        ['Group', groupText(state)],
        ['Risk score', state.risk_score],
        ['Tenant', alert.tenant],
        ['Pipeline', state.event?.pipeline],
        ['Changed', changed?.at && `${time(changed.at) ?? changed.at}${changed.by ? ` by ${changed.by}` : ''}`],
        ['Reason', changed?.reason],
        ['Escalates', time(state.escalate_at)],
      ]}
    />
  );
}

function RuleSection({ alert: { rule = {} }, state, isOperator }: { alert: AlertDocument; state: AlertState; isOperator: boolean }) {
  const reference = webAddress(rule.reference);
  return (
    <Facts
      title="Rule"
      rows={[
        ['Description', rule.description],
        [
          'ID',
          rule.id && isOperator ? (
            <Anchor component={Link} to={`/rules/${encodeURIComponent(rule.id)}`} size="sm">
              {rule.id}
            </Anchor>
          ) : (
            rule.id
          ),
        ],
        ['Version', state.rule_version],
        ['Author', rule.author],
        [
          'Reference',
          reference ? (
            <Anchor href={reference} target="_blank" rel="noreferrer noopener" size="sm">
              {reference}
            </Anchor>
          ) : (
            rule.reference
          ),
        ],
      ]}
    />
  );
}

function ThreatSection({ alert: { threat } }: { alert: AlertDocument }) {
  const list = (value: string | string[] | undefined) => [value ?? []].flat().join(', ');
  return (
    <Facts
      title="Threat"
      rows={[
        ['Framework', threat?.framework],
        ['Tactics', list(threat?.tactic?.name)],
        ['Techniques', list(threat?.technique?.id)],
      ]}
    />
  );
}

function Deliveries({ state, name, isOperator, onResent }: { state: AlertState; name: AlertName; isOperator: boolean; onResent: () => void }) {
  const format = useFormat();
  const resend = useMutation({ mutationFn: () => resendAlerts([name]), onSuccess: onResent });
  const { pending = [], failed = [], deliveries = [] } = state;
  if (pending.length === 0 && failed.length === 0 && deliveries.length === 0) return null;
  return (
    <Facts
      title="Delivery"
      rows={[
        ['Pending', pending.join(', ')],
        ['Failed', failed.join(', ')],
      ]}
    >
      {deliveries.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label="Delivery attempts">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Time</Table.Th>
                <Table.Th>Channel</Table.Th>
                <Table.Th>Outcome</Table.Th>
                <Table.Th ta="end">Attempts</Table.Th>
                <Table.Th>Reason</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {deliveries.map((delivery, at) => (
                <Table.Tr key={at}>
                  <Table.Td>{format.time(Date.parse(delivery.at))}</Table.Td>
                  <Table.Td>{delivery.channel}</Table.Td>
                  <Table.Td>
                    {delivery.outcome}
                    {delivery.digest && ', in a digest'}
                  </Table.Td>
                  <Table.Td ta="end">{delivery.attempts === undefined ? '' : format.number(delivery.attempts)}</Table.Td>
                  <Table.Td>{delivery.reason}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {isOperator && failed.length > 0 && (
        <Button size="xs" mt="xs" variant="default" loading={resend.isPending} onClick={() => resend.mutate()}>
          Deliver again
        </Button>
      )}
      {resend.error && <Failed error={resend.error} compact />}
      {resend.data && <ResendResult result={resend.data} />}
    </Facts>
  );
}

function ResendResult({ result: { updated, failures } }: { result: ChangeResult }) {
  return (
    <Text size="sm" mt={4} role="status">
      {failures[0] ? failures[0].reason : updated > 0 ? 'The alert is queued for delivery.' : 'The alert has no failed channel.'}
    </Text>
  );
}
