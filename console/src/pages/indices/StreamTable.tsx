import { Anchor } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { useFormat } from '../../app/preferences';
import { type Column, DataTable } from '../../components/DataTable';
import { Health } from './Health';
import type { StreamRow } from './rows';

export function StreamTable({ streams }: { streams: StreamRow[] }) {
  const format = useFormat();
  const columns = useMemo(
    (): Column<StreamRow>[] => [
      {
        id: 'name',
        title: 'Data stream',
        value: (stream) => stream.name,
        cell: (stream) => (
          <Anchor component={Link} size="sm" to={`/indices/all?stream=${encodeURIComponent(stream.name)}${stream.hidden ? '&hidden=1' : ''}`}>
            {stream.name}
          </Anchor>
        ),
      },
      { id: 'health', title: 'Health', width: 100, value: (stream) => stream.status, cell: (stream) => <Health health={stream.status} /> },
      { id: 'indices', title: 'Indices', width: 100, numeric: true, value: (stream) => stream.indices, cell: (stream) => format.number(stream.indices) },
      { id: 'documents', title: 'Events', width: 140, numeric: true, value: (stream) => stream.documents, cell: (stream) => format.number(stream.documents) },
      { id: 'size', title: 'Size', width: 110, numeric: true, value: (stream) => stream.dataBytes, cell: (stream) => format.bytes(stream.dataBytes) },
      { id: 'tiers', title: 'Tiers', width: 180, value: (stream) => stream.tiers.join(', ') || null },
      { id: 'policy', title: 'Lifecycle policy', width: 180, value: (stream) => stream.policy, cell: (stream) => stream.policy ?? 'none' },
      { id: 'template', title: 'Template', width: 200, value: (stream) => stream.template },
    ],
    [format],
  );
  return <DataTable label="data streams" rows={streams} columns={columns} rowKey={(stream) => stream.name} initialSort="-size" height={640} />;
}
