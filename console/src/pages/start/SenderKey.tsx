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

const OWN = 'no tenant';

/** Makes a key that may send events and nothing else, and puts it into the blocks below. */
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
        The key is in the blocks below. Copy now: the server keeps only a hash of it and nobody can show it again.
      </Text>
    );
  }
  if (may.isPending) return <Loading />;
  if (may.data === false) {
    return (
      <Text size="sm" c="dimmed">
        You may not make keys. Ask who administers the tenant for one that may send, and put it in place of YOUR_API_KEY.
      </Text>
    );
  }
  return (
    <>
      <Group align="flex-end" gap="sm">
        {chooses && (
          <Select
            label="Whose events they are"
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
          Make a key that may only send
        </Button>
        <Text size="xs" c="dimmed">
          It ends in a year. Or put one that you have in place of YOUR_API_KEY.
        </Text>
      </Group>
      {error && <Failed error={error} compact />}
    </>
  );
}
