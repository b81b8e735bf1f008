import { Alert, Button, Code, Group, Paper, Stack, Table, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { explainLifecycle, lifecycleMode, type LifecycleState, retryStep } from '../../api/lifecycle';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Failed } from '../../components/Failed';
import { MoveStep } from './MoveStep';

const REFRESH_MS = 3000;

/** Lifecycle state of an index: phase, action and step, with actions to retry or move. */
export function Lifecycle({ index }: { index: string }) {
  const explained = useQuery({ queryKey: ['lifecycle', index], queryFn: ({ signal }) => explainLifecycle(index, signal), refetchInterval: REFRESH_MS });
  const mode = useQuery({ queryKey: ['lifecycle-mode'], queryFn: ({ signal }) => lifecycleMode(signal) });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Lifecycle
      </Title>
      {mode.data && mode.data !== 'RUNNING' && (
        <Alert color="yellow" mb="sm" title={`Index lifecycle management is ${mode.data.toLowerCase()}`}>
          Indices do not move to their next step until you start it with POST _ilm/start.
        </Alert>
      )}
      <Answer query={explained} what="Lifecycle">
        {(state) => {
          if (!state?.managed) {
            return (
              <Text size="sm" c="dimmed">
                No policy manages this index.
              </Text>
            );
          }
          return <State state={state} onChanged={() => void explained.refetch()} />;
        }}
      </Answer>
    </Paper>
  );
}

function State({ state, onChanged }: { state: LifecycleState; onChanged: () => void }) {
  const format = useFormat();
  const [moving, setMoving] = useState(false);
  const retry = useMutation({
    mutationFn: () => retryStep(state.index),
    onSuccess: () => {
      notifications.show({ color: 'green', message: 'Retrying the failed step.' });
      onChanged();
    },
  });
  const failed = state.step === 'ERROR';
  const rows: [string, string | undefined][] = [
    ['Policy', state.policy],
    ['Age', state.age],
    ['Phase', state.phase],
    ['Action', state.action],
    ['Step', state.step && state.step_time_millis ? `${state.step}, since ${format.minute(state.step_time_millis)}` : state.step],
    ['Snapshot', state.snapshot_name && `${state.repository_name ?? ''}/${state.snapshot_name}`],
  ];
  return (
    <Stack gap="sm">
      {failed && (
        <Alert color="red" title={`Step ${state.failed_step ?? ''} failed`}>
          {state.step_info?.reason ?? state.step_info?.message ?? 'No reason given.'}
          {state.failed_step_retry_count !== undefined && ` Retries: ${format.number(state.failed_step_retry_count)}.`}
        </Alert>
      )}
      {!failed && state.previous_step_info?.reason && (
        <Alert color="yellow" title="Retrying">
          {state.previous_step_info.reason}
        </Alert>
      )}
      {!failed && state.step_info?.message && <Alert color="glacier">{state.step_info.message}</Alert>}
      <Table maw={640} withRowBorders={false} verticalSpacing={3}>
        <Table.Tbody>
          {rows
            .filter(([, value]) => value)
            .map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th scope="row" w={120} fw={500}>
                  {name}
                </Table.Th>
                <Table.Td>{value}</Table.Td>
              </Table.Tr>
            ))}
        </Table.Tbody>
      </Table>
      {state.phase_execution?.phase_definition !== undefined && <Code block>{JSON.stringify(state.phase_execution.phase_definition, null, 2)}</Code>}
      {retry.error && <Failed error={retry.error} compact />}
      <Group>
        {failed && (
          <Button size="xs" loading={retry.isPending} onClick={() => retry.mutate()}>
            Retry step
          </Button>
        )}
        {state.phase && (
          <Button size="xs" variant="default" onClick={() => setMoving(true)}>
            Move to another step
          </Button>
        )}
      </Group>
      {moving && <MoveStep state={state} onClose={() => setMoving(false)} onMoved={onChanged} />}
    </Stack>
  );
}
