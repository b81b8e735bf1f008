import { Badge, Button, Stack } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { type ApiKey, invalidateApiKey, listApiKeys } from '../../api/api-keys';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { keyState } from './key-state';
import { NewKey } from './NewKey';

const COLOURS = { active: 'green', expired: 'gray', invalidated: 'red' } as const;

/** API keys of a tenant: creator, last use, and an action to invalidate them. */
export function Keys({ tenant }: { tenant: string }) {
  const format = useFormat();
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<ApiKey | null>(null);
  const keys = useQuery({ queryKey: ['api-keys'], queryFn: ({ signal }) => listApiKeys(signal) });
  const columns = useMemo(
    (): Column<ApiKey>[] => [
      { id: 'name', title: 'Name', value: (key) => key.name },
      { id: 'id', title: 'ID', width: 220, value: (key) => key.id },
      { id: 'by', title: 'Created by', width: 140, value: (key) => key.username },
      { id: 'creation', title: 'Created', width: 180, value: (key) => key.creation, cell: (key) => format.minute(key.creation) },
      {
        id: 'used',
        title: 'Last used',
        width: 180,
        value: (key) => key.last_used ?? null,
        cell: (key) => (key.last_used === undefined ? 'never' : format.minute(key.last_used)),
      },
      {
        id: 'expiration',
        title: 'Expires',
        width: 180,
        value: (key) => key.expiration ?? null,
        cell: (key) => (key.expiration === undefined ? 'never' : format.minute(key.expiration)),
      },
      {
        id: 'state',
        title: 'State',
        width: 130,
        value: (key) => keyState(key, Date.now()),
        cell: (key) => {
          const state = keyState(key, Date.now());
          return (
            <Badge variant="light" color={COLOURS[state]}>
              {state}
            </Badge>
          );
        },
      },
      {
        id: 'actions',
        title: '',
        width: 120,
        sortable: false,
        value: () => null,
        cell: (key) =>
          keyState(key, Date.now()) === 'active' && (
            <Button size="compact-xs" variant="default" c="red" onClick={() => setEnding(key)} aria-label={`Invalidate key ${key.name}`}>
              Invalidate
            </Button>
          ),
      },
    ],
    [format],
  );
  return (
    <Stack>
      <div>
        <Button size="xs" leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setMaking(true)}>
          Create API key
        </Button>
      </div>
      <Answer query={keys} what="API keys">
        {(all) => {
          const own = all.filter((key) => key.metadata.tenant === tenant);
          if (own.length === 0) return <Empty title="No API keys">An API key lets a shipper write events of this tenant, or a program search them.</Empty>;
          return <DataTable label="API keys" rows={own} columns={columns} rowKey={(key) => key.id} initialSort="-creation" />;
        }}
      </Answer>
      {making && <NewKey tenant={tenant} onClose={() => setMaking(false)} />}
      {ending && (
        <Confirm
          title={`Invalidate key ${ending.name}`}
          action="Invalidate"
          onConfirm={async () => {
            await invalidateApiKey(ending.id);
            await keys.refetch();
          }}
          onClose={() => setEnding(null)}
        >
          Requests with this key fail from now on. An invalidated key cannot be reactivated.
        </Confirm>
      )}
    </Stack>
  );
}
