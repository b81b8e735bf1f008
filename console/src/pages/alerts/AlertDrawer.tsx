import { Anchor, Button, Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import { type AlertDocument, type AlertHit, type AlertName, type AlertState, fetchAlert, STATUSES } from '../../api/alerts';
import { fetchFields } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { useReturnFocus } from '../../components/return-focus';
import { SeverityBadge } from '../../components/SeverityBadge';
import { dateMs } from '../../lib/event-fields';
import EventDetail from '../discover/EventDetail';
import { ACTIONS, type Change } from './ChangeStatus';
import { Deliveries, isInMaintenance } from './Deliveries';
import { Facts } from './Facts';
import { eventFields, eventPath, groupText, surroundingPath, webAddress, windowPath } from './links';
import { MaintenanceBadge, StatusBadge } from './StatusBadge';
import { Parts, WindowSection } from './WindowSection';

interface Props {
  name: AlertName;
  isOperator: boolean;
  onChange: (change: Change) => void;
  onClose: () => void;
}

/** Drawer with one alert: state, what a rule over several events has found, rule, threat, deliveries and the fields of its event. */
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
  const [event, surrounding, window] = [eventPath(state), surroundingPath(state), windowPath(state, alert)];
  return (
    <Stack gap="md">
      <div>
        <Group gap="xs" mb={4}>
          <SeverityBadge severity={state.severity} />
          <StatusBadge status={state.status} />
          {isInMaintenance(state) && <MaintenanceBadge />}
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
      <WindowSection alert={alert} state={state} />
      <Parts alert={alert} state={state} />
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
        ['Group', groupText(state)],
        ['Risk score', state.risk_score],
        ['Tenant', alert.tenant],
        ['Pipeline', state.event?.pipeline],
        ['Changed', changed?.at && `${time(changed.at) ?? changed.at}${changed.by ? ` by ${changed.by}` : ''}`],
        ['Reason', changed?.reason],
        ['Escalates', escalationText(state, (at) => time(at))],
      ]}
    />
  );
}

/** When the alert goes to further channels, and to which. */
function escalationText({ escalate_at: next, escalation = [] }: AlertState, time: (at: string) => string | null): string | null {
  if (!next) return null;
  const steps = escalation.map(({ at, channels }) => `${time(at) ?? at} to ${channels.join(', ')}`);
  return steps.length > 0 ? steps.join('; ') : time(next);
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
