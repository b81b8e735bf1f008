import { Anchor, Badge, Button } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { DEFAULTS_ID, listTenants, type Tenant } from '../../api/tenants';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { DeclareTenant } from './DeclareTenant';

/** Refresh interval of the usage. */
const REFRESH_MS = 10_000;

export function TenantList() {
  const format = useFormat();
  const navigate = useNavigate();
  const [declaring, setDeclaring] = useState(false);
  const tenants = useQuery({ queryKey: ['tenants'], queryFn: ({ signal }) => listTenants(signal), refetchInterval: REFRESH_MS });
  const columns = useMemo(
    (): Column<Tenant>[] => [
      { id: 'id', title: 'Tenant', value: (tenant) => tenant.id, cell: (tenant) => (
          <Anchor component={Link} size="sm" to={tenant.id}>
            {tenant.id}
          </Anchor>
        ) },
      { id: 'name', title: 'Name', value: (tenant) => tenant.effective.display_name ?? null },
      { id: 'events', title: 'Events', width: 120, numeric: true, value: (tenant) => tenant.usage?.events ?? null, cell: (tenant) => format.number(tenant.usage?.events ?? 0) },
      {
        id: 'stored',
        title: 'Stored',
        width: 110,
        numeric: true,
        value: (tenant) => tenant.usage?.stored_bytes['total'] ?? null,
        cell: (tenant) => format.bytes(tenant.usage?.stored_bytes['total'] ?? 0),
      },
      {
        id: 'rate',
        title: 'Events/s',
        width: 100,
        numeric: true,
        value: (tenant) => tenant.usage?.ingest.events_per_second ?? null,
        cell: (tenant) => format.number(tenant.usage?.ingest.events_per_second ?? 0),
      },
      {
        id: 'search',
        title: 'Search CPU',
        width: 120,
        numeric: true,
        value: (tenant) => tenant.usage?.search_cpu_ms ?? null,
        cell: (tenant) => format.duration(tenant.usage?.search_cpu_ms ?? 0),
      },
      {
        id: 'refused',
        title: 'Refused',
        width: 100,
        numeric: true,
        value: (tenant) => tenant.usage?.requests_refused_by_quota ?? null,
        cell: (tenant) => format.number(tenant.usage?.requests_refused_by_quota ?? 0),
      },
      { id: 'retention', title: 'Retention', width: 110, value: (tenant) => tenant.effective.retention ?? null, cell: (tenant) => tenant.effective.retention ?? 'no limit' },
      {
        id: 'state',
        title: 'State',
        width: 110,
        value: (tenant) => (tenant.deleting_since ? 'deleting' : 'active'),
        cell: (tenant) => (tenant.deleting_since ? <Badge color="red" variant="light">deleting</Badge> : 'active'),
      },
    ],
    [format],
  );
  return (
    <PageFrame
      title="Tenants"
      about="Tenants with their usage and quotas."
      actions={
        <>
          <Button size="xs" variant="default" component={Link} to={DEFAULTS_ID}>
            Default limits
          </Button>
          <Button size="xs" leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setDeclaring(true)}>
            Create tenant
          </Button>
        </>
      }
    >
      <Answer query={tenants} what="Tenants">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No tenants yet">
              Without tenants, every user who may search sees all events. Create a tenant and an API key for it, and send its events with that key.
            </Empty>
          ) : (
            <DataTable label="tenants" rows={rows} columns={columns} rowKey={(tenant) => tenant.id} initialSort="-events" height={680} />
          )
        }
      </Answer>
      {declaring && <DeclareTenant onClose={() => setDeclaring(false)} onDeclared={(id) => void navigate(`${id}/quotas`)} />}
    </PageFrame>
  );
}
