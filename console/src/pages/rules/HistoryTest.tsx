import { Button, Group, Paper, Select, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { type HistoryResult, testRule } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { ruleMissing, ruleProblems, type RuleInput } from './form';
import { type HistoryPart, historyParts } from './history-parts';
import { unevaluatedText } from './unevaluated';

const PERIODS = [
  { value: 'now-1d', label: 'Last day' },
  { value: 'now-7d', label: 'Last 7 days' },
  { value: 'now-30d', label: 'Last 30 days' },
];

/** Result of one search. */
interface Found {
  part: HistoryPart;
  result: HistoryResult;
}

/** Tests the rule of the form on stored events. Of rules that a search cannot test it counts the events that match. */
export function HistoryTest({ input }: { input: RuleInput }) {
  const [index, setIndex] = useState('*');
  const [from, setFrom] = useState('now-30d');
  const { mutate, isPending, data, error } = useMutation({
    mutationFn: async (fetch: boolean) => {
      const found: Found[] = [];
      for (const part of historyParts(input)) found.push({ part, result: await testRule(part.rule, index.trim(), from, fetch) });
      return found;
    },
  });
  // The name is for readers.
  const isIncomplete = ruleMissing({ ...input, name: 'Test' }).length > 0 || Object.keys(ruleProblems(input)).length > 0;
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <div>
          <Title order={2} size="h5">
            Test on history
          </Title>
          <Text size="sm" c="dimmed">
            {ABOUT[input.type] ?? 'Counts the stored events that the rule would have matched. This is an estimate, because a search uses the mapping of the index.'}
          </Text>
        </div>
        <Group align="flex-end">
          <TextInput label="Index" w={260} value={index} onChange={(event) => setIndex(event.currentTarget.value)} />
          <Select label="Period" w={160} allowDeselect={false} data={PERIODS} value={from} onChange={(value) => setFrom(value ?? 'now-30d')} />
          <Button variant="default" size="sm" loading={isPending} disabled={index.trim() === '' || isIncomplete} onClick={() => mutate(false)}>
            Test rule
          </Button>
        </Group>
        {data && <Results found={data} fetchAll={() => mutate(true)} />}
        {error && <Failed title="Rule not tested" error={error} compact />}
      </Stack>
    </Paper>
  );
}

/** What is tested of the types whose alerts a search cannot count, or does not find. */
const ABOUT: Partial<Record<RuleInput['type'], string>> = {
  sigma: 'Evaluates the rule on the records (event.original) of the newest stored events, at most 10,000, as the pipelines that stored them would.',
  sequence: 'Counts the stored events of each step. A search does not check the order of events, so it cannot count the alerts.',
  rate_of_change: 'Counts the stored events whose rate is monitored. A search does not compare a window with previous ones, so it cannot count the alerts.',
  absence: 'Counts the stored events whose absence raises an alert. A search does not find missing events, so it cannot count the alerts.',
  new_value: 'Counts the stored events that match. A search does not detect which values were new, so it cannot count the alerts.',
};

function Results({ found, fetchAll }: { found: Found[]; fetchAll: () => void }) {
  const format = useFormat();
  if (found.some(({ result }) => !result.ran)) {
    const bytes = found.reduce((sum, { result }) => sum + (result.cost?.bytes ?? 0), 0);
    return (
      <Group gap="sm" role="status">
        <Text size="sm">The test would fetch {format.bytes(bytes)} from snapshot repositories.</Text>
        <Button size="xs" variant="default" onClick={fetchAll}>
          Test anyway
        </Button>
      </Group>
    );
  }
  return (
    <div role="status">
      {found.map(({ part, result: { alerts = 0, events = 0, partial, read, not_evaluated } }, at) => (
        <Text key={at} size="sm">
          {part.countsAlerts ? (
            <>
              <b>{format.number(alerts)}</b> {alerts === 1 ? 'alert' : 'alerts'} of {format.number(events)} matching {events === 1 ? 'event' : 'events'}
            </>
          ) : (
            <>
              {part.label && `${part.label}: `}
              <b>{format.number(events)}</b> matching {events === 1 ? 'event' : 'events'}
            </>
          )}
          {read !== undefined && `; ${format.number(read)} ${read === 1 ? 'event was' : 'events were'} read`}
          {unevaluatedText(not_evaluated, format.number)}
          {partial && (read === undefined ? '; not all events were read, so there may be more' : '; there may be more')}
        </Text>
      ))}
    </div>
  );
}
