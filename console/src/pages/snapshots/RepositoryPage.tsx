import { Button, Code, Group, Tabs } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { cleanupRepository, deleteRepository, listRepositories } from '../../api/repositories';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { AnalyzeRepository } from './AnalyzeRepository';
import { isReadonly, placeOf } from './places';
import { SnapshotTable } from './SnapshotTable';
import { VerifyButton } from './VerifyButton';

/** Page of one repository: snapshots, analysis and settings. */
export function RepositoryPage() {
  const { name = '', tab = 'snapshots' } = useParams();
  const navigate = useNavigate();
  const format = useFormat();
  const [asking, setAsking] = useState<'cleanup' | 'forget' | null>(null);
  const repositories = useQuery({ queryKey: ['repositories'], queryFn: ({ signal }) => listRepositories(signal) });
  const repository = repositories.data?.[name];
  const readonly = repository !== undefined && isReadonly(repository);
  return (
    <PageFrame
      title={name}
      about={repository && `Type ${repository.type}, location ${placeOf(repository)}${readonly ? ', read-only' : ''}`}
      within={{ list: 'Repositories', to: '/snapshots', name }}
      actions={
        repository && (
          <>
            <VerifyButton name={name} size="xs" />
            {!readonly && (
              <Button size="xs" variant="default" onClick={() => setAsking('cleanup')}>
                Clean up
              </Button>
            )}
            <Button size="xs" variant="default" c="red" onClick={() => setAsking('forget')}>
              Unregister
            </Button>
          </>
        )
      }
    >
      <Answer query={repositories} what={`Repository ${name}`}>
        {() =>
          repository === undefined ? (
            <Empty title="Repository not found">It has been unregistered or never existed.</Empty>
          ) : (
            <Tabs value={tab} onChange={(next) => void navigate(`/snapshots/repository/${encodeURIComponent(name)}/${next ?? ''}`)} keepMounted={false}>
              <Tabs.List mb="md">
                <Tabs.Tab value="snapshots">Snapshots</Tabs.Tab>
                <Tabs.Tab value="analysis">Analysis</Tabs.Tab>
                <Tabs.Tab value="settings">Settings</Tabs.Tab>
              </Tabs.List>
              <Tabs.Panel value="snapshots">
                <SnapshotTable repository={name} readonly={readonly} />
              </Tabs.Panel>
              <Tabs.Panel value="analysis">{readonly ? <Empty title="Read-only repository">An analysis needs write access.</Empty> : <AnalyzeRepository name={name} />}</Tabs.Panel>
              <Tabs.Panel value="settings">
                <Group>
                  <Code block>{JSON.stringify(repository.settings, null, 2)}</Code>
                </Group>
              </Tabs.Panel>
            </Tabs>
          )
        }
      </Answer>
      {asking === 'cleanup' && (
        <Confirm
          title={`Clean up ${name}`}
          action="Clean up"
          onConfirm={async () => {
            const { results } = await cleanupRepository(name);
            notifications.show({ color: 'green', message: `Removed ${format.number(results.deleted_blobs)} objects, ${format.bytes(results.deleted_bytes)}.` });
          }}
          onClose={() => setAsking(null)}
        >
          Deletes objects that no snapshot references. Do not take snapshots in this repository meanwhile.
        </Confirm>
      )}
      {asking === 'forget' && (
        <Confirm
          title={`Unregister repository ${name}`}
          action="Unregister"
          onConfirm={async () => {
            await deleteRepository(name);
            await repositories.refetch();
            void navigate('/snapshots');
          }}
          onClose={() => setAsking(null)}
        >
          This server stops using the repository. Its contents stay in the store and are available again after you register it.
        </Confirm>
      )}
    </PageFrame>
  );
}
