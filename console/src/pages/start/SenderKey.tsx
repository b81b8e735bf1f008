import { Button, Group, Select, Text } from '@mantine/core';
import { IconKey } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { createApiKey, mayCreateApiKey } from '../../api/api-keys';
import { listTenants } from '../../api/tenants';
import { useSession } from '../../app/session-context';
import { Failed } from '../../components/Failed';
import { Loading } from '../../components/Loading';
import { KEY_USES } from '../tenants/key-state';

const OWN = 'No tenant';

/** Creates a write-only API key and puts it into the examples below. */
export function SenderKey({ made, onMade }: { made: boolean; onMade: (key: string) => void }) {
  const { session } = useSession();
  const chooses = session.operator && !session.view_as;
  const [tenant, setTenant] = useState(OWN);
  const tenants = useQuery({ queryKey: ['tenants'], queryFn: ({ signal }) => listTenants(signal), enabled: chooses });
  const may = useQuery({ queryKey: ['may', 'create_api_key'], queryFn: ({ signal }) => mayCreateApiKey(signal) });
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => {
      const whose = chooses ? (tenant === OWN ? null : tenant) : session.tenant;
      return createApiKey({ name: `${whose ?? 'operator'}-shipper`, expiration: '365d', ...(whose && { tenant: whose }), ...(KEY_USES.write.roles && { role_descriptors: KEY_USES.write.roles }) });
    },
    onSuccess: ({ encoded }) => onMade(encoded),
    gcTime: 0,
  });
  if (made) {
    return (
      <Text size="sm" role="status">
        The key is in the examples below. Copy it now: the server stores only a hash, so the key cannot be shown again.
      </Text>
    );
  }
  if (may.isPending) return <Loading />;
  if (may.data === false) {
    return (
      <Text size="sm" c="dimmed">
        You lack permission to create API keys. Ask an administrator of the tenant for a write-only key, and replace YOUR_API_KEY with it.
      </Text>
    );
  }
  return (
    <>
      <Group align="flex-end" gap="sm">
        {chooses && (
          <Select
            label="Tenant"
            size="xs"
            w={220}
            searchable
            allowDeselect={false}
            data={[OWN, ...(tenants.data ?? []).map(({ id }) => id)]}
            value={tenant}
            onChange={(value) => setTenant(value ?? OWN)}
          />
        )}
        <Button size="xs" leftSection={<IconKey size={14} aria-hidden />} loading={isPending} onClick={() => mutate()}>
          Create write-only API key
        </Button>
        <Text size="xs" c="dimmed">
          Expires in 1 year. Or replace YOUR_API_KEY with an existing key.
        </Text>
      </Group>
      {error && <Failed error={error} compact />}
    </>
  );
}
