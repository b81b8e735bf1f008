import { Anchor, Badge, Text } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { useFormat } from '../../app/preferences';
import { type Column, DataTable } from '../../components/DataTable';
import { Health } from './Health';
import { hasFailed, type IndexRow, lifecycleText, tierOrder } from './rows';

export function IndexTable({ rows, stream }: { rows: IndexRow[]; stream: string | null }) {
  const format = useFormat();
  const columns = useMemo(
    (): Column<IndexRow>[] => [
      {
        id: 'index',
        title: 'Index',
        value: (row) => row.index,
        cell: (row) => (
          <Anchor component={Link} size="sm" to={`/indices/index/${encodeURIComponent(row.index)}`}>
            {row.index}
          </Anchor>
        ),
      },
      { id: 'health', title: 'Health', width: 90, value: (row) => row.health, cell: (row) => (row.open ? <Health health={row.health} /> : <Badge variant="light" color="gray">closed</Badge>) },
      { id: 'tier', title: 'Tier', width: 90, value: (row) => (row.tier ? `${tierOrder(row.tier.split(',')[0] ?? '')} ${row.tier}` : null), cell: (row) => row.tier ?? '–' },
      { id: 'shards', title: 'Shards', width: 90, numeric: true, value: (row) => row.shards },
      { id: 'documents', title: 'Events', width: 130, numeric: true, value: (row) => row.documents, cell: (row) => (row.documents === null ? '–' : format.number(row.documents)) },
      { id: 'size', title: 'Size', width: 110, numeric: true, value: (row) => row.dataBytes, cell: (row) => (row.dataBytes === null ? '–' : format.bytes(row.dataBytes)) },
      { id: 'disk', title: 'On disk', width: 110, numeric: true, value: (row) => row.storedBytes, cell: (row) => (row.storedBytes === null ? '–' : format.bytes(row.storedBytes)) },
      { id: 'created', title: 'Created', width: 165, value: (row) => row.createdMs, cell: (row) => format.minute(row.createdMs) },
      {
        id: 'lifecycle',
        title: 'Lifecycle',
        width: 240,
        value: (row) => lifecycleText(row.lifecycle),
        cell: (row) => (hasFailed(row.lifecycle) ? <Text span size="sm" c="var(--mantine-color-error)">{lifecycleText(row.lifecycle)}</Text> : lifecycleText(row.lifecycle)),
      },
    ],
    [format],
  );
  const tools = stream && (
    <Anchor component={Link} to="/indices/all" size="xs">
      Only backing indices of {stream}: show all
    </Anchor>
  );
  return <DataTable label="indices" rows={rows} columns={columns} rowKey={(row) => row.index} initialSort="index" height={640} tools={tools} />;
}
