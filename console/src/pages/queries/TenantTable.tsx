import { Anchor, Title } from '@mantine/core';
import { useMemo } from 'react';
import { useFormat } from '../../app/preferences';
import { type Column, DataTable } from '../../components/DataTable';
import type { TenantTraffic } from './traffic';

/** Requests and latency by tenant. */
export function TenantTable({ tenants, onPick }: { tenants: TenantTraffic[]; onPick: (tenant: string) => void }) {
  const format = useFormat();
  const columns = useMemo((): Column<TenantTraffic>[] => {
    const took = (id: 'p50' | 'p95' | 'p99', title: string): Column<TenantTraffic> => ({
      id,
      title,
      width: 110,
      numeric: true,
      value: (row) => row[id],
      cell: (row) => (row[id] === null ? '–' : format.duration(row[id])),
    });
    return [
      {
        id: 'tenant',
        title: 'Tenant',
        value: (row) => row.tenant,
        cell: (row) => (
          <Anchor component="button" type="button" size="sm" onClick={() => onPick(row.tenant)}>
            {row.tenant}
          </Anchor>
        ),
      },
      { id: 'requests', title: 'Requests', width: 120, numeric: true, value: (row) => row.requests, cell: (row) => format.number(row.requests) },
      { id: 'work', title: 'Total time', width: 120, numeric: true, value: (row) => row.workMs, cell: (row) => format.duration(row.workMs) },
      took('p50', 'Median'),
      took('p95', 'p95'),
      took('p99', 'p99'),
    ];
  }, [format, onPick]);
  return (
    <div>
      <Title order={2} size="h5" mb="xs">
        By tenant
      </Title>
      <DataTable name="tenants" label="requests by tenant" rows={tenants} columns={columns} rowKey={(row) => row.tenant} initialSort="-work" height={260} />
    </div>
  );
}
