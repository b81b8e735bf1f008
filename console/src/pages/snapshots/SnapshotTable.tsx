import { ActionIcon, Anchor, Button } from '@mantine/core';
import { IconCamera, IconDots } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { deleteSnapshot, listSnapshots, type Snapshot } from '../../api/snapshots';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { Menu } from '../../components/Menu';
import { MountIndex } from './MountIndex';
import { RestoreSnapshot } from './RestoreSnapshot';
import { SnapshotDetails } from './SnapshotDetails';
import { SnapshotState } from './SnapshotState';
import { TakeSnapshot } from './TakeSnapshot';

const REFRESH_RUNNING_MS = 2000;

type Deed = 'details' | 'restore' | 'mount' | 'delete';

/** Snapshots of a repository, with the actions on each. */
export function SnapshotTable({ repository, readonly }: { repository: string; readonly: boolean }) {
  const format = useFormat();
  const [taking, setTaking] = useState(false);
  const [asking, setAsking] = useState<{ deed: Deed; snapshot: Snapshot } | null>(null);
  const snapshots = useQuery({
    queryKey: ['snapshots', repository],
    queryFn: ({ signal }) => listSnapshots(repository, signal),
    refetchInterval: ({ state }) => (state.data?.some((snapshot) => snapshot.state === 'IN_PROGRESS') ? REFRESH_RUNNING_MS : false),
  });
  const columns = useMemo(
    (): Column<Snapshot>[] => [
      {
        id: 'name',
        title: 'Snapshot',
        value: (snapshot) => snapshot.snapshot,
        cell: (snapshot) => (
          <Anchor component="button" type="button" size="sm" onClick={() => setAsking({ deed: 'details', snapshot })}>
            {snapshot.snapshot}
          </Anchor>
        ),
      },
      { id: 'state', title: 'State', width: 130, value: (snapshot) => snapshot.state, cell: (snapshot) => <SnapshotState state={snapshot.state} /> },
      { id: 'start', title: 'Started', width: 190, value: (snapshot) => snapshot.start_time_in_millis, cell: (snapshot) => format.minute(snapshot.start_time_in_millis) },
      {
        id: 'took',
        title: 'Duration',
        width: 100,
        numeric: true,
        value: (snapshot) => (snapshot.state === 'IN_PROGRESS' ? null : snapshot.duration_in_millis),
        cell: (snapshot) => (snapshot.state === 'IN_PROGRESS' ? '–' : format.duration(snapshot.duration_in_millis)),
      },
      { id: 'indices', title: 'Indices', width: 90, numeric: true, value: (snapshot) => snapshot.indices.length, cell: (snapshot) => format.number(snapshot.indices.length) },
      {
        id: 'shards',
        title: 'Shards',
        width: 130,
        numeric: true,
        value: (snapshot) => snapshot.shards.total,
        cell: ({ shards }) => (shards.failed > 0 ? `${format.number(shards.failed)} of ${format.number(shards.total)} failed` : format.number(shards.total)),
      },
      {
        id: 'actions',
        title: '',
        width: 60,
        sortable: false,
        value: () => null,
        cell: (snapshot) => <Deeds snapshot={snapshot} readonly={readonly} onPick={(deed) => setAsking({ deed, snapshot })} />,
      },
    ],
    [format, readonly],
  );
  const close = () => setAsking(null);
  return (
    <>
      <Answer query={snapshots} what="Snapshots">
        {(rows) => (
          <>
            <DataTable
              label="snapshots"
              rows={rows}
              columns={columns}
              rowKey={(snapshot) => snapshot.uuid}
              initialSort="-start"
              height={640}
              hideWhenEmpty
              tools={
                !readonly && (
                  <Button size="xs" leftSection={<IconCamera size={14} aria-hidden />} onClick={() => setTaking(true)}>
                    Take snapshot
                  </Button>
                )
              }
            />
            {rows.length === 0 && <Empty title="No snapshots yet">Take one now, or create a snapshot policy.</Empty>}
          </>
        )}
      </Answer>
      {taking && <TakeSnapshot repository={repository} onTaken={() => void snapshots.refetch()} onClose={() => setTaking(false)} />}
      {asking?.deed === 'details' && <SnapshotDetails snapshot={asking.snapshot} onClose={close} />}
      {asking?.deed === 'restore' && <RestoreSnapshot repository={repository} snapshot={asking.snapshot} onClose={close} />}
      {asking?.deed === 'mount' && <MountIndex repository={repository} snapshot={asking.snapshot} onClose={close} />}
      {asking?.deed === 'delete' && (
        <Confirm
          title="Delete snapshot"
          action="Delete snapshot"
          typed={asking.snapshot.snapshot}
          onConfirm={async () => {
            await deleteSnapshot(repository, asking.snapshot.snapshot);
            await snapshots.refetch();
          }}
          onClose={close}
        >
          Deletes all data from the store that no other snapshot uses. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function Deeds({ snapshot, readonly, onPick }: { snapshot: Snapshot; readonly: boolean; onPick: (deed: Deed) => void }) {
  const usable = snapshot.indices.length > 0 && (snapshot.state === 'SUCCESS' || snapshot.state === 'PARTIAL');
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={`Actions for snapshot ${snapshot.snapshot}`}>
          <IconDots size={16} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onPick('details')}>Show details</Menu.Item>
        <Menu.Item disabled={!usable} onClick={() => onPick('restore')}>
          Restore…
        </Menu.Item>
        <Menu.Item disabled={!usable} onClick={() => onPick('mount')}>
          Mount index…
        </Menu.Item>
        {!readonly && (
          <Menu.Item color="red" onClick={() => onPick('delete')}>
            {snapshot.state === 'IN_PROGRESS' ? 'Stop and delete…' : 'Delete…'}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
