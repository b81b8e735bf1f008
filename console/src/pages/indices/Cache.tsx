import { Group, Paper, Progress, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { fetchCacheStats } from '../../api/cache';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Empty } from '../../components/Empty';
import { Figure } from '../../components/Figure';

const REFRESH_MS = 5000;

/** Statistics of the region cache: hit rate and usage by kind of split part. */
export function Cache() {
  const format = useFormat();
  const stats = useQuery({ queryKey: ['cache'], queryFn: ({ signal }) => fetchCacheStats(signal), refetchInterval: REFRESH_MS });
  return (
    <Answer query={stats} what="Cache">
      {(data) => {
        if (!data || data.shared_cache.size_in_bytes === 0) {
          return <Empty title="No frozen cache">Indices mounted with storage=shared_cache need one. Set its size with xpack.searchable.snapshot.shared_cache.size.</Empty>;
        }
        const { shared_cache: cache, open_splits: splits } = data;
        const kinds = Object.entries(cache.kinds);
        const requested = kinds.reduce((sum, [, kind]) => sum + kind.requested_in_bytes, 0);
        const hit = kinds.reduce((sum, [, kind]) => sum + kind.hit_in_bytes, 0);
        return (
          <Stack>
            <Group gap="sm" align="stretch">
              <Figure label="Hit rate" value={requested > 0 ? format.percent((hit / requested) * 100) : 'No requests yet'} detail="of bytes, since start" />
              <Figure label="Used" value={format.bytes(cache.used_in_bytes)} detail={`of ${format.bytes(cache.size_in_bytes)}`} />
              <Figure label="Pinned" value={format.bytes(cache.pinned_in_bytes)} />
              <Figure label="Object store requests" value={format.number(cache.store_requests)} detail={`${format.number(cache.joined_requests)} joined a running request`} />
              <Figure label="Evicted regions" value={format.number(cache.evictions)} />
              <Figure label="Open splits" value={format.number(splits.count)} detail={format.bytes(splits.memory_in_bytes)} />
              <Figure label="Damaged pages" value={format.number(cache.damaged_pages)} detail="fetched again" />
            </Group>
            <Paper withBorder p="md" bg="var(--firn-surface)">
              <Progress value={(cache.used_in_bytes / cache.size_in_bytes) * 100} aria-label="Cache usage" mb="md" />
              <Table.ScrollContainer minWidth={760}>
                <Table aria-label="Cache requests by split part">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Split part</Table.Th>
                      <Table.Th w={260}>Hit rate</Table.Th>
                      <Table.Th ta="end">Requested</Table.Th>
                      <Table.Th ta="end">Hits</Table.Th>
                      <Table.Th ta="end">Fetched</Table.Th>
                      <Table.Th ta="end">Cached</Table.Th>
                      <Table.Th ta="end">Evicted</Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {kinds.map(([name, kind]) => (
                      <Table.Tr key={name}>
                        <Table.Td>{name}</Table.Td>
                        <Table.Td>
                          {kind.hit_rate === null ? (
                            <Text size="sm" c="dimmed">
                              No requests yet
                            </Text>
                          ) : (
                            <Group gap="xs" wrap="nowrap">
                              <Progress w={140} value={kind.hit_rate * 100} aria-label={`${name}: hit rate`} />
                              <Text size="sm">{format.percent(kind.hit_rate * 100)}</Text>
                            </Group>
                          )}
                        </Table.Td>
                        <Table.Td ta="end">{format.bytes(kind.requested_in_bytes)}</Table.Td>
                        <Table.Td ta="end">{format.bytes(kind.hit_in_bytes)}</Table.Td>
                        <Table.Td ta="end">{format.bytes(kind.fetched_in_bytes)}</Table.Td>
                        <Table.Td ta="end">{format.bytes(kind.cached_in_bytes)}</Table.Td>
                        <Table.Td ta="end">{format.bytes(kind.evicted_in_bytes)}</Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </Paper>
          </Stack>
        );
      }}
    </Answer>
  );
}
