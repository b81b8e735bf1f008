import { Alert, Group, Paper, Progress, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { type DataPath, listDataPaths } from '../../api/indices';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { type Bar, Bars } from '../../components/Bars';
import { type IndexRow, tierOrder } from './rows';

const REFRESH_MS = 15_000;
/** Elasticsearch's default low disk watermark. */
const NEARLY_FULL_PERCENT = 85;

interface Props {
  indices: UseQueryResult<{ rows: IndexRow[] }>;
}

/** Devices of this node, and the distribution of events over tiers. */
export function Tiers({ indices }: Props) {
  const format = useFormat();
  const paths = useQuery({ queryKey: ['data-paths'], queryFn: ({ signal }) => listDataPaths(signal), refetchInterval: REFRESH_MS });
  return (
    <Stack>
      <Answer query={paths} what="Devices">
        {(devices) => (
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            {devices.map((device) => (
              <Device key={device.path} device={device} />
            ))}
          </SimpleGrid>
        )}
      </Answer>
      <Paper withBorder p="md" bg="var(--firn-surface)" maw={760}>
        <Title order={2} size="h5" mb="xs">
          Events by tier
        </Title>
        <Answer query={indices} what="Indices">
          {({ rows }) => <Bars label="Size by tier" bars={byTier(rows).map((tier): Bar => ({ key: tier.tier, label: `${tier.tier}: ${format.number(tier.indices)} indices, ${format.number(tier.documents)} events`, value: tier.bytes, text: format.bytes(tier.bytes) }))} />}
        </Answer>
        <Text size="xs" c="dimmed" mt="xs">
          The size of cold and frozen indices includes segments that are only in a repository.
        </Text>
      </Paper>
    </Stack>
  );
}

function byTier(rows: IndexRow[]) {
  const tiers = new Map<string, { tier: string; indices: number; documents: number; bytes: number }>();
  for (const row of rows) {
    const tier = row.tier ?? 'closed';
    const sum = tiers.get(tier) ?? { tier, indices: 0, documents: 0, bytes: 0 };
    sum.indices += 1;
    sum.documents += row.documents ?? 0;
    sum.bytes += row.dataBytes ?? 0;
    tiers.set(tier, sum);
  }
  return [...tiers.values()].sort((left, right) => tierOrder(left.tier) - tierOrder(right.tier));
}

function Device({ device }: { device: DataPath }) {
  const format = useFormat();
  const used = device.total_in_bytes - device.available_in_bytes;
  const percent = device.total_in_bytes > 0 ? (used / device.total_in_bytes) * 100 : 0;
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Group justify="space-between">
        <Title order={2} size="h5">
          {device.tier}
        </Title>
        <Text size="sm">{format.number(device.shards)} shards</Text>
      </Group>
      <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
        {device.path}
      </Text>
      <Progress my="xs" value={percent} color={percent >= NEARLY_FULL_PERCENT ? 'red' : 'glacier'} aria-label={`${device.tier}: disk ${Math.round(percent)}% full`} />
      <Text size="sm">
        {format.bytes(device.shards_in_bytes)} in shards; {format.bytes(device.available_in_bytes)} of {format.bytes(device.total_in_bytes)} free
      </Text>
      {device.write_block && (
        <Alert color="red" mt="xs" title="Writes are blocked">
          {device.write_block}
        </Alert>
      )}
    </Paper>
  );
}
