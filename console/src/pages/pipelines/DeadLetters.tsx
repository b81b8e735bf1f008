import { Anchor, Button, Group, Paper, Table, Text, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'react-router';
import { listDeadLetters, replayDeadLetters } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Failed } from '../../components/Failed';

const REFRESH_MS = 10_000;

/** Newest records of a pipeline that could not be parsed or indexed, with the reason. */
export function DeadLetters({ id, index }: { id: string; index: string }) {
  const format = useFormat();
  const client = useQueryClient();
  const queryKey = ['dead-letters', id, index];
  const replay = useMutation({ mutationFn: () => replayDeadLetters(id), onSettled: () => client.invalidateQueries({ queryKey }) });
  const letters = useQuery({ queryKey, queryFn: ({ signal }) => listDeadLetters(id, index, signal), refetchInterval: REFRESH_MS });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5">
          Dead letters
        </Title>
        {(letters.data?.total ?? 0) > 0 && (
          <Button size="xs" variant="default" loading={replay.isPending} onClick={() => replay.mutate()}>
            Replay
          </Button>
        )}
      </Group>
      {replay.error && <Failed error={replay.error} compact />}
      {replay.data && (
        <Text size="sm" mb="xs" role="status">
          {format.number(replay.data.replayed)} replayed, {format.number(replay.data.failed)} failed again
          {replay.data.not_tried > 0 && `, ${format.number(replay.data.not_tried)} not tried yet`}
        </Text>
      )}
      <Answer query={letters} what="Dead letters">
        {({ total, letters }) =>
          total === 0 ? (
            <Text size="sm" c="dimmed">
              All records were parsed and indexed.
            </Text>
          ) : (
            <>
              <Text size="sm" mb="xs">
                {format.number(total)} in{' '}
                <Anchor component={Link} to={`/discover?i=${encodeURIComponent(index)}`} size="sm">
                  {index}
                </Anchor>
                {total > letters.length && `, the newest ${format.number(letters.length)} here`}
              </Text>
              <Table.ScrollContainer minWidth={760}>
                <Table aria-label="Dead letters">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th w={220}>Time</Table.Th>
                      <Table.Th w={80}>Step</Table.Th>
                      <Table.Th>Reason</Table.Th>
                      <Table.Th>Record</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {letters.map(({ _id, _source: letter }) => (
                      <Table.Tr key={_id}>
                        <Table.Td>{format.time(Date.parse(letter['@timestamp']))}</Table.Td>
                        <Table.Td>{letter.firn?.dead_letter?.step}</Table.Td>
                        <Table.Td>{letter.error?.message}</Table.Td>
                        <Table.Td ff="monospace" style={{ wordBreak: 'break-all' }}>
                          {letter.event?.original?.slice(0, RECORD_SHOWN)}
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </>
          )
        }
      </Answer>
    </Paper>
  );
}

/** Characters of a record. */
const RECORD_SHOWN = 500;
