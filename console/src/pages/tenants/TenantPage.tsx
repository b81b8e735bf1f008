import { Button, Tabs } from '@mantine/core';
import { IconEye, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { DEFAULTS_ID, deleteTenant, fetchTenant } from '../../api/tenants';
import { useSession } from '../../app/session-context';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { PageFrame } from '../../components/PageFrame';
import { Deletion } from './Deletion';
import { Keys } from './Keys';
import { QuotaForm } from './QuotaForm';
import { Usage } from './Usage';
import { ViewAs } from './ViewAs';

/** Page of one tenant, or of `_default`, which has only settings. */
export function TenantPage() {
  const { id = '', tab } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const [asking, setAsking] = useState<'view' | 'delete' | null>(null);
  const tenant = useQuery({ queryKey: ['tenants', id], queryFn: ({ signal }) => fetchTenant(id, signal) });
  const isDefault = id === DEFAULTS_ID;
  const shown = tab ?? (isDefault ? 'quotas' : 'usage');
  return (
    <PageFrame
      title={isDefault ? 'Default limits' : (tenant.data?.effective.display_name ?? id)}
      about={isDefault ? 'Tenants inherit these limits unless they have their own.' : `Tenant ${id}`}
      within={{ list: 'Tenants', to: '/tenants', name: id }}
      actions={
        !isDefault && (
          <>
            {session.security && (
              <Button size="xs" variant="default" leftSection={<IconEye size={14} aria-hidden />} onClick={() => setAsking('view')}>
                View as tenant
              </Button>
            )}
            <Button size="xs" variant="default" c="red" leftSection={<IconTrash size={14} aria-hidden />} onClick={() => setAsking('delete')}>
              Delete
            </Button>
          </>
        )
      }
    >
      <Answer query={tenant} what={`Tenant ${id}`}>
        {(data) => (
          <>
            {data.deleting_since !== undefined && <Deletion id={id} />}
            <Tabs value={shown} onChange={(next) => void navigate(`/tenants/${encodeURIComponent(id)}/${next ?? ''}`)} keepMounted={false}>
              <Tabs.List mb="md">
                {!isDefault && <Tabs.Tab value="usage">Usage</Tabs.Tab>}
                <Tabs.Tab value="quotas">Quotas and retention</Tabs.Tab>
                {!isDefault && <Tabs.Tab value="keys">API keys</Tabs.Tab>}
              </Tabs.List>
              <Tabs.Panel value="usage">
                <Usage tenant={data} />
              </Tabs.Panel>
              <Tabs.Panel value="quotas">
                <QuotaForm key={JSON.stringify(data)} tenant={data} />
              </Tabs.Panel>
              <Tabs.Panel value="keys">
                <Keys tenant={id} />
              </Tabs.Panel>
            </Tabs>
          </>
        )}
      </Answer>
      {asking === 'view' && <ViewAs tenant={id} onClose={() => setAsking(null)} />}
      {asking === 'delete' && (
        <Confirm
          title={`Delete tenant ${id}`}
          action="Delete tenant and events"
          typed={id}
          onConfirm={async () => {
            await deleteTenant(id);
            await tenant.refetch();
          }}
          onClose={() => setAsking(null)}
        >
          Its API keys and users stop working at once, and its events are deleted from every index. This cannot be undone. Snapshots keep their copies; this page lists them afterwards.
        </Confirm>
      )}
    </PageFrame>
  );
}
