import { Group, Progress, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { fetchUsage, type Quotas, type Tenant } from '../../api/tenants';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Figure } from '../../components/Figure';
import { QUOTA_FIELDS } from './quotas';

const REFRESH_MS = 5000;
/** Quotas without a measured usage: they limit one moment or one search. */
const NOT_MEASURED: (keyof Quotas)[] = ['concurrent_searches', 'search_cpu_share', 'search_repository_bytes', 'shared_cache_bytes'];

/** Usage of a tenant next to its quotas. */
export function Usage({ tenant }: { tenant: Tenant }) {
  const format = useFormat();
  const usage = useQuery({ queryKey: ['tenants', tenant.id, 'usage'], queryFn: ({ signal }) => fetchUsage(tenant.id, signal), refetchInterval: REFRESH_MS });
  const { quotas } = tenant.effective;
  return (
    <Answer query={usage} what="Usage">
      {(used) => (
        <Stack>
          <Group gap="sm" align="stretch">
            <Figure label="Searchable events" value={format.number(used.events)} />
            <Figure label="Ingested events" value={format.number(used.ingest.events_total)} detail="since the server started" />
            <Figure label="Search CPU" value={format.duration(used.search_cpu_ms)} />
            <Figure label="Write CPU" value={format.duration(used.write_cpu_ms)} />
            <Figure label="Cached" value={format.bytes(used.cache_bytes)} />
            <Figure label="Refused by quota" value={format.number(used.requests_refused_by_quota)} detail="requests" />
          </Group>
          <Table maw={760} withTableBorder bg="var(--firn-surface)" aria-label="Quota usage">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Quota</Table.Th>
                <Table.Th>Used</Table.Th>
                <Table.Th>Limit</Table.Th>
                <Table.Th w={200}>Share</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              <Use label="Stored bytes" used={(used.stored_bytes['total'] ?? 0) - (used.stored_bytes['frozen'] ?? 0)} allowed={quotas.stored_bytes} show={format.bytes} />
              <Use label="Events per second" used={used.ingest.events_per_second} allowed={quotas.ingest_events_per_second} show={format.number} />
              <Use label="Bytes per second" used={used.ingest.bytes_per_second} allowed={quotas.ingest_bytes_per_second} show={format.bytes} />
              {QUOTA_FIELDS.filter(({ name }) => NOT_MEASURED.includes(name)).map(({ name, label, kind }) => (
                <Use key={name} label={label} used={null} allowed={quotas[name]} show={kind === 'bytes' ? format.bytes : format.number} />
              ))}
            </Table.Tbody>
          </Table>
          <Text size="sm" c="dimmed">
            Stored by tier:{' '}
            {Object.entries(used.stored_bytes)
              .filter(([tier]) => tier !== 'total')
              .map(([tier, bytes]) => `${tier} ${format.bytes(bytes)}`)
              .join(', ') || 'nothing'}
          </Text>
        </Stack>
      )}
    </Answer>
  );
}

/** Above this share the usage bar is red. */
const NEAR_PERCENT = 80;

function Use({ label, used, allowed, show }: { label: string; used: number | null; allowed: number | undefined; show: (value: number) => string }) {
  const percent = allowed && used !== null ? Math.min(100, (used / allowed) * 100) : 0;
  return (
    <Table.Tr>
      <Table.Td>{label}</Table.Td>
      <Table.Td>{used === null ? '–' : show(used)}</Table.Td>
      <Table.Td>{allowed === undefined ? 'no limit' : show(allowed)}</Table.Td>
      <Table.Td>
        {allowed !== undefined && used !== null && <Progress value={percent} color={percent >= NEAR_PERCENT ? 'red' : 'glacier'} aria-label={`${label}: ${Math.round(percent)}%`} />}
      </Table.Td>
    </Table.Tr>
  );
}
