import { Anchor, Badge, Button, Group } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useNavigate } from 'react-router';
import { listRepositories, type Repository } from '../../api/repositories';
import { Answer } from '../../components/Answer';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { isReadonly, placeOf } from './places';
import { RegisterRepository } from './RegisterRepository';
import { VerifyButton } from './VerifyButton';

type Row = Repository & { name: string };

/** Table of registered repositories. */
export function Repositories() {
  const navigate = useNavigate();
  const [registering, setRegistering] = useState(false);
  const repositories = useQuery({ queryKey: ['repositories'], queryFn: ({ signal }) => listRepositories(signal) });
  const columns = useMemo(
    (): Column<Row>[] => [
      {
        id: 'name',
        title: 'Repository',
        value: (row) => row.name,
        cell: (row) => (
          <Anchor component={Link} size="sm" to={`/snapshots/repository/${encodeURIComponent(row.name)}`}>
            {row.name}
          </Anchor>
        ),
      },
      { id: 'type', title: 'Type', width: 100, value: (row) => row.type },
      { id: 'place', title: 'Location', value: (row) => placeOf(row) },
      {
        id: 'access',
        title: 'Access',
        width: 140,
        value: (row) => (isReadonly(row) ? 'read-only' : 'read and write'),
        cell: (row) => (isReadonly(row) ? <Badge variant="light" color="gray">read-only</Badge> : 'read and write'),
      },
      { id: 'actions', title: '', width: 110, sortable: false, value: () => null, cell: (row) => <VerifyButton name={row.name} /> },
    ],
    [],
  );
  return (
    <>
      <Group mb="sm">
        <Button size="xs" leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setRegistering(true)}>
          Register repository
        </Button>
      </Group>
      <Answer query={repositories} what="Repositories">
        {(all) => {
          const rows = Object.entries(all).map(([name, repository]) => ({ ...repository, name }));
          if (rows.length === 0) {
            return <Empty title="No repositories">Register a bucket, container or folder to store snapshots and searchable snapshots.</Empty>;
          }
          return <DataTable label="repositories" rows={rows} columns={columns} rowKey={(row) => row.name} initialSort="name" />;
        }}
      </Answer>
      {registering && (
        <RegisterRepository
          onClose={() => setRegistering(false)}
          onRegistered={async (name) => {
            await repositories.refetch();
            void navigate(`/snapshots/repository/${encodeURIComponent(name)}`);
          }}
        />
      )}
    </>
  );
}
