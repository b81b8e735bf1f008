import { Button, Group, Paper, Select, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { type HistoryResult, testRule } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { ruleDefinition, type RuleInput } from './form';

const PERIODS = [
  { value: 'now-1d', label: 'Last day' },
  { value: 'now-7d', label: 'Last 7 days' },
  { value: 'now-30d', label: 'Last 30 days' },
];

/** Tests the rule of the form on stored events. */
export function HistoryTest({ input }: { input: RuleInput }) {
  const [index, setIndex] = useState('*');
  const [from, setFrom] = useState('now-30d');
  const { mutate, isPending, data, error } = useMutation({
    mutationFn: (fetch: boolean) => testRule({ ...ruleDefinition(input, null), name: input.name.trim() || 'Test' }, index.trim(), from, fetch),
  });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <div>
          <Title order={2} size="h5">
            Test on history
          </Title>
          <Text size="sm" c="dimmed">
            Counts what the rule would have found in stored events. A search decides by the mapping of the index, so this is an estimate.
          </Text>
        </div>
        <Group align="flex-end">
          <TextInput label="Index" w={260} value={index} onChange={(event) => setIndex(event.currentTarget.value)} />
          <Select label="Period" w={160} allowDeselect={false} data={PERIODS} value={from} onChange={(value) => setFrom(value ?? 'now-30d')} />
          <Button variant="default" size="sm" loading={isPending} disabled={index.trim() === '' || input.query.text.trim() === ''} onClick={() => mutate(false)}>
            Test rule
          </Button>
        </Group>
        {data && <Found found={data} fetchAll={() => mutate(true)} />}
        {error && <Failed title="Rule not tested" error={error} compact />}
      </Stack>
    </Paper>
  );
}

function Found({ found, fetchAll }: { found: HistoryResult; fetchAll: () => void }) {
  const format = useFormat();
  if (!found.ran) {
    return (
      <Group gap="sm" role="status">
        <Text size="sm">The test would fetch {format.bytes(found.cost?.bytes ?? 0)} from snapshot repositories.</Text>
        <Button size="xs" variant="default" onClick={fetchAll}>
          Test all the same
        </Button>
      </Group>
    );
  }
  const { alerts = 0, events = 0, partial } = found;
  return (
    <Text size="sm" role="status">
      <b>{format.number(alerts)}</b> {alerts === 1 ? 'alert' : 'alerts'} of {format.number(events)} matching {events === 1 ? 'event' : 'events'}
      {partial && '; not all events were read, there may be more'}
    </Text>
  );
}
