import { Anchor, Badge } from '@mantine/core';
import { useMemo } from 'react';
import { useFormat } from '../../app/preferences';
import { type Column, DataTable } from '../../components/DataTable';
import type { TrafficRecord } from './traffic';

/** Requests with the cost of each. */
export function TrafficTable({ records, onTenant }: { records: TrafficRecord[]; onTenant: (tenant: string) => void }) {
  const format = useFormat();
  const columns = useMemo((): Column<TrafficRecord>[] => {
    const count = (id: string, title: string, value: (row: TrafficRecord) => number | undefined, show: (value: number) => string = format.number): Column<TrafficRecord> => ({
      id,
      title,
      width: 104,
      numeric: true,
      value: (row) => value(row) ?? null,
      cell: (row) => {
        const amount = value(row);
        return amount === undefined ? '–' : show(amount);
      },
    });
    return [
      { id: 'time', title: 'Time', width: 220, value: (row) => row['@timestamp'], cell: (row) => format.time(row['@timestamp']) },
      count('took', 'Took', (row) => row.took_ms, format.duration),
      {
        id: 'status',
        title: 'Status',
        width: 90,
        value: (row) => row.status,
        cell: (row) => (
          <Badge variant="light" color={row.status >= 500 ? 'red' : row.status >= 400 ? 'orange' : 'green'} title={row.error?.type}>
            {row.status}
          </Badge>
        ),
      },
      { id: 'name', title: 'Request', width: 150, value: (row) => row.request.name },
      { id: 'index', title: 'Index', value: (row) => row.index ?? null },
      {
        id: 'tenant',
        title: 'Tenant',
        width: 130,
        value: (row) => row.tenant ?? row.view_as ?? null,
        cell: ({ tenant }) =>
          tenant && (
            <Anchor component="button" type="button" size="sm" onClick={() => onTenant(tenant)}>
              {tenant}
            </Anchor>
          ),
      },
      { id: 'user', title: 'User', width: 120, value: (row) => row.user?.name ?? null },
      count('hits', 'Hits', (row) => row.hits),
      count('segments', 'Segments', (row) => row.segments),
      count('written', 'Written', (row) => row.written),
      count('out', 'Sent', (row) => row.bytes?.out, format.bytes),
      count('repository', 'Fetched', (row) => row.bytes?.repository, format.bytes),
    ];
  }, [format, onTenant]);
  return <DataTable name="requests" label="requests" rows={records} columns={columns} rowKey={(row) => `${row.request.id}/${row['@timestamp']}`} />;
}
