import { Badge, Button, Group, Paper, Text, Title } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { type Channel, testChannel } from '../../api/channels';
import { errorText } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { type Column, DataTable } from '../../components/DataTable';
import { useChannels } from './use-rules';

/** Channels that deliver alerts, with pending and failed deliveries. */
export function Channels() {
  const format = useFormat();
  const channels = useChannels();
  const columns = useMemo((): Column<Channel>[] => {
    const count = (id: 'pending' | 'delivered' | 'failed', title: string): Column<Channel> => ({
      id,
      title,
      width: 105,
      numeric: true,
      value: ({ stats }) => stats?.[id] ?? null,
      cell: ({ stats }) => (stats ? format.number(stats[id]) : '–'),
    });
    return [
      { id: 'id', title: 'Channel', width: 180, value: ({ id }) => id },
      { id: 'type', title: 'Type', width: 100, value: ({ definition }) => definition.type },
      { id: 'tenant', title: 'Tenant', width: 120, value: ({ definition }) => definition.tenant ?? null },
      count('pending', 'Pending'),
      count('delivered', 'Delivered'),
      count('failed', 'Failed'),
      { id: 'error', title: 'Last error', value: ({ stats }) => stats?.last_error ?? null },
      {
        id: 'next',
        title: 'Next attempt',
        width: 170,
        value: ({ stats }) => stats?.next_attempt ?? null,
        cell: ({ stats }) => (stats?.next_attempt ? format.minute(Date.parse(stats.next_attempt)) : '–'),
      },
      { id: 'test', title: 'Test', width: 260, sortable: false, value: () => null, cell: ({ id }) => <TestButton id={id} /> },
    ];
  }, [format]);
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Channels
      </Title>
      <Answer query={channels} what="Channels">
        {(channels) =>
          channels.length === 0 ? (
            <Text size="sm" c="dimmed">
              No channels. Create one with PUT /_firn/channels/NAME: e-mail, webhook or syslog. Without a channel, alerts are shown in the console only.
            </Text>
          ) : (
            <DataTable label="channels" name="channels" rows={channels} columns={columns} rowKey={({ id }) => id} initialSort="id" height={360} />
          )
        }
      </Answer>
    </Paper>
  );
}

function TestButton({ id }: { id: string }) {
  const client = useQueryClient();
  const { mutate, data, error, isPending } = useMutation({ mutationFn: () => testChannel(id), onSettled: () => client.invalidateQueries({ queryKey: ['channels'] }) });
  return (
    <Group gap={6} wrap="nowrap">
      <Button size="compact-xs" variant="default" loading={isPending} aria-label={`Test ${id}`} onClick={() => mutate()}>
        Test
      </Button>
      <div role="status">
        {data && (
          <Badge variant="light" color={data.delivered ? 'green' : 'red'} tt="none">
            {data.delivered ? 'delivered' : 'not delivered'}
          </Badge>
        )}
        {error && (
          <Text size="xs" c="var(--mantine-color-error)" title={errorText(error)} truncate maw={190}>
            {errorText(error)}
          </Text>
        )}
      </div>
    </Group>
  );
}
