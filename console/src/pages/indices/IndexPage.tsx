import { Button, Paper, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';
import { fetchSettings, listShards } from '../../api/indices';
import { useFormat } from '../../app/preferences';
import { useSession } from '../../app/session-context';
import { Answer } from '../../components/Answer';
import { PageFrame } from '../../components/PageFrame';
import { Lifecycle } from './Lifecycle';

const REFRESH_MS = 5000;

/** Page of one index: shards and their location, lifecycle, settings. */
export function IndexPage() {
  const { index = '' } = useParams();
  const { session } = useSession();
  const operator = session.operator && !session.view_as;
  return (
    <PageFrame
      title={index}
      within={{ list: 'Indices', to: '/indices/all', name: index }}
      actions={
        <Button size="xs" variant="default" component={Link} to={`/discover?i=${encodeURIComponent(index)}`}>
          Open in Discover
        </Button>
      }
    >
      <Stack>
        <Shards index={index} />
        {operator && <Lifecycle index={index} />}
        <Settings index={index} />
      </Stack>
    </PageFrame>
  );
}

function Shards({ index }: { index: string }) {
  const format = useFormat();
  const shards = useQuery({ queryKey: ['shards', index], queryFn: ({ signal }) => listShards(index, signal), refetchInterval: REFRESH_MS });
  const bytes = (cell: string | null) => (cell === null ? '–' : format.bytes(Number(cell)));
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Shards
      </Title>
      <Answer query={shards} what="Shards">
        {(rows) => (
          <Table.ScrollContainer minWidth={760}>
            <Table aria-label={`Shards of ${index}`}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Shard</Table.Th>
                  <Table.Th>State</Table.Th>
                  <Table.Th>Tier</Table.Th>
                  <Table.Th>Node</Table.Th>
                  <Table.Th ta="end">Events</Table.Th>
                  <Table.Th ta="end">Segments</Table.Th>
                  <Table.Th ta="end">Size</Table.Th>
                  <Table.Th ta="end">On disk</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {rows.map((shard, at) => (
                  <Table.Tr key={at}>
                    <Table.Td>
                      {shard.shard} {shard.prirep === 'r' && '(replica)'}
                    </Table.Td>
                    <Table.Td>
                      {shard.state}
                      {shard['unassigned.details'] && (
                        <Text size="xs" c="var(--mantine-color-error)">
                          {shard['unassigned.details']}
                        </Text>
                      )}
                    </Table.Td>
                    <Table.Td>
                      {shard.tier ?? '–'}
                      {shard['tier.target'] && `, moving to ${shard['tier.target']}`}
                    </Table.Td>
                    <Table.Td>{shard.node ?? '–'}</Table.Td>
                    <Table.Td ta="end">{shard.docs === null ? '–' : format.number(Number(shard.docs))}</Table.Td>
                    <Table.Td ta="end">{shard['segments.count'] ?? '–'}</Table.Td>
                    <Table.Td ta="end">{bytes(shard.dataset)}</Table.Td>
                    <Table.Td ta="end">{bytes(shard.store)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Answer>
    </Paper>
  );
}

function Settings({ index }: { index: string }) {
  const settings = useQuery({ queryKey: ['settings', index], queryFn: ({ signal }) => fetchSettings(index, signal) });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Settings
      </Title>
      <Answer query={settings} what="Settings">
        {(all) => (
          <Table maw={900} aria-label={`Settings of ${index}`}>
            <Table.Tbody>
              {Object.entries(all).map(([name, value]) => (
                <Table.Tr key={name}>
                  <Table.Th scope="row" fw={500}>
                    {name}
                  </Table.Th>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{String(value)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Answer>
    </Paper>
  );
}
