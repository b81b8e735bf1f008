import { Anchor, Button, Group, MultiSelect, Table, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Fragment, useState } from 'react';
import { Link } from 'react-router';
import { type AlertName, type AlertState, type ChangeResult, resendAlerts } from '../../api/alerts';
import { listChannels } from '../../api/channels';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { FormDialog } from '../../components/FormDialog';
import { windowPath } from '../rules/maintenance/paths';
import { Facts } from './Facts';

interface Props {
  state: AlertState;
  name: AlertName;
  isOperator: boolean;
  onResent: () => void;
}

/** Whether a maintenance window keeps an alert from being delivered. */
export const isInMaintenance = ({ maintenance_windows: windows = [] }: AlertState): boolean => windows.length > 0;

/** Channels that have to deliver an alert, those that failed, and the attempts. */
export function Deliveries({ state, name, isOperator, onResent }: Props) {
  const [choosing, setChoosing] = useState(false);
  const resend = useMutation({ mutationFn: (channels: string[] | undefined) => resendAlerts([name], channels), onSuccess: onResent });
  const { pending = [], failed = [], deliveries = [], maintenance_windows: windows = [] } = state;
  return (
    <Facts
      title="Delivery"
      rows={[
        ['Suppressed by', windows.length > 0 ? <WindowNames ids={windows} isOperator={isOperator} /> : null],
        ['Pending', pending.join(', ')],
        ['Failed', failed.join(', ')],
      ]}
    >
      {deliveries.length > 0 && <Attempts deliveries={deliveries} />}
      {deliveries.length === 0 && pending.length === 0 && failed.length === 0 && (
        <Text size="sm" c="dimmed">
          {windows.length > 0 ? 'Not delivered: the alert was raised in a maintenance window.' : 'Not delivered: the rule names no channel, and no channel subscribes to it.'}
        </Text>
      )}
      {isOperator && (
        <Group gap="xs" mt="xs">
          {failed.length > 0 && (
            <Button size="xs" variant="default" loading={resend.isPending} onClick={() => resend.mutate(undefined)}>
              Deliver again
            </Button>
          )}
          <Button size="xs" variant="default" onClick={() => setChoosing(true)}>
            Deliver over…
          </Button>
        </Group>
      )}
      {resend.error && <Failed error={resend.error} compact />}
      {resend.data && <ResendResult result={resend.data} />}
      {choosing && <ChooseChannels onChosen={(channels) => resend.mutateAsync(channels)} onClose={() => setChoosing(false)} />}
    </Facts>
  );
}

function WindowNames({ ids, isOperator }: { ids: string[]; isOperator: boolean }) {
  return ids.map((id, at) => (
    <Fragment key={id}>
      {at > 0 && ', '}
      {isOperator ? (
        <Anchor component={Link} to={windowPath(id)} size="sm">
          {id}
        </Anchor>
      ) : (
        id
      )}
    </Fragment>
  ));
}

function Attempts({ deliveries }: { deliveries: NonNullable<AlertState['deliveries']> }) {
  const format = useFormat();
  return (
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
  );
}

/** Dialog that delivers an alert over channels that the user chooses. */
function ChooseChannels({ onChosen, onClose }: { onChosen: (channels: string[]) => Promise<unknown>; onClose: () => void }) {
  const channels = useQuery({ queryKey: ['channels'], queryFn: ({ signal }) => listChannels(signal) });
  const [chosen, setChosen] = useState<string[]>([]);
  const ids = channels.data?.map(({ id }) => id) ?? [];
  return (
    <FormDialog title="Deliver alert" action="Deliver" ready={chosen.length > 0} onSubmit={() => onChosen(chosen)} onClose={onClose}>
      {channels.data && ids.length === 0 && <Text size="sm">No channels. Create one with PUT /_firn/channels/NAME.</Text>}
      <MultiSelect label="Channels" data-autofocus data={ids} value={chosen} error={channels.error ? 'Failed to load the channels' : null} onChange={setChosen} />
    </FormDialog>
  );
}

function ResendResult({ result: { updated, failures } }: { result: ChangeResult }) {
  return (
    <Text size="sm" mt={4} role="status">
      {failures[0] ? failures[0].reason : updated > 0 ? 'The alert is queued for delivery.' : 'The alert has no failed channel.'}
    </Text>
  );
}
