import { Badge, Button, Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import {
  deleteSnapshotPolicy,
  fetchSnapshotPoliciesMode,
  listSnapshotPolicies,
  runRetention,
  runSnapshotPolicy,
  type SnapshotPolicy,
  startSnapshotPolicies,
  stopSnapshotPolicies,
} from '../../api/slm';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { Failed } from '../../components/Failed';
import { NewPolicy } from './NewPolicy';

const REFRESH_MS = 5000;

type Row = SnapshotPolicy & { id: string };

/** Snapshot policies: schedule, repository and the last results. */
export function Policies() {
  const format = useFormat();
  const [making, setMaking] = useState(false);
  const [deleting, setDeleting] = useState<string | null>(null);
  const policies = useQuery({ queryKey: ['slm'], queryFn: ({ signal }) => listSnapshotPolicies(signal), refetchInterval: REFRESH_MS });
  const mode = useQuery({ queryKey: ['slm-mode'], queryFn: ({ signal }) => fetchSnapshotPoliciesMode(signal) });
  const run = useMutation({
    mutationFn: runSnapshotPolicy,
    onSuccess: ({ snapshot_name }) => {
      notifications.show({ color: 'green', message: `Snapshot ${snapshot_name} started.` });
      void policies.refetch();
    },
  });
  const clean = useMutation({ mutationFn: runRetention, onSuccess: () => notifications.show({ color: 'green', message: 'Deleting expired snapshots.' }) });
  const stopped = mode.data !== undefined && mode.data !== 'RUNNING';
  const turn = useMutation({ mutationFn: () => (stopped ? startSnapshotPolicies() : stopSnapshotPolicies()), onSuccess: () => mode.refetch() });
  const { mutate: runNow } = run;
  const columns = useMemo(
    (): Column<Row>[] => [
      { id: 'id', title: 'Policy', value: (row) => row.id },
      { id: 'schedule', title: 'Schedule', width: 150, value: (row) => row.policy.schedule, cell: (row) => <Text span size="sm" ff="monospace">{row.policy.schedule}</Text> },
      { id: 'repository', title: 'Repository', width: 140, value: (row) => row.policy.repository },
      { id: 'next', title: 'Next run', width: 170, value: (row) => row.next_execution_millis, cell: (row) => (row.next_execution_millis < 0 ? 'never' : format.minute(row.next_execution_millis)) },
      {
        id: 'last',
        title: 'Last run',
        width: 240,
        value: (row) => lastOf(row)?.time ?? null,
        cell: (row) => {
          if (row.in_progress) return <Badge variant="light" color="blue" tt="none">In progress</Badge>;
          const last = lastOf(row);
          if (!last) return 'No runs yet';
          return (
            <Group gap={6} wrap="nowrap">
              <Badge flex="none" variant="light" color={last.failed ? 'red' : 'green'} tt="none">
                {last.failed ? 'Failed' : 'Complete'}
              </Badge>
              {format.minute(last.time)}
            </Group>
          );
        },
      },
      { id: 'taken', title: 'Taken', width: 80, numeric: true, value: (row) => row.stats.snapshots_taken, cell: (row) => format.number(row.stats.snapshots_taken) },
      { id: 'failed', title: 'Failed', width: 80, numeric: true, value: (row) => row.stats.snapshots_failed, cell: (row) => format.number(row.stats.snapshots_failed) },
      { id: 'deleted', title: 'Deleted', width: 95, numeric: true, value: (row) => row.stats.snapshots_deleted, cell: (row) => format.number(row.stats.snapshots_deleted) },
      {
        id: 'actions',
        title: '',
        width: 175,
        sortable: false,
        value: () => null,
        cell: (row) => (
          <Group gap={6} wrap="nowrap">
            <Button size="compact-xs" variant="default" onClick={() => runNow(row.id)} aria-label={`Run now: policy ${row.id}`}>
              Run now
            </Button>
            <Button size="compact-xs" variant="default" c="red" onClick={() => setDeleting(row.id)} aria-label={`Delete policy ${row.id}`}>
              Delete
            </Button>
          </Group>
        ),
      },
    ],
    [format, runNow],
  );
  const error = run.error ?? clean.error ?? turn.error;
  return (
    <>
      <Group mb="sm">
        <Button size="xs" leftSection={<IconPlus size={14} aria-hidden />} onClick={() => setMaking(true)}>
          Create policy
        </Button>
        <Button size="xs" variant="default" loading={clean.isPending} onClick={() => clean.mutate()}>
          Delete expired snapshots now
        </Button>
        {mode.data !== undefined && (
          <Button size="xs" variant="default" loading={turn.isPending} onClick={() => turn.mutate()}>
            {stopped ? 'Resume all policies' : 'Pause all policies'}
          </Button>
        )}
        {stopped && (
          <Badge color="yellow" variant="light" tt="none">
            Paused: no policy takes snapshots
          </Badge>
        )}
      </Group>
      {error && <Failed error={error} compact />}
      <Answer query={policies} what="Snapshot policies">
        {(all) => {
          const rows = Object.entries(all).map(([id, policy]) => ({ ...policy, id }));
          if (rows.length === 0) return <Empty title="No snapshot policies">A policy takes snapshots on a schedule and deletes expired ones.</Empty>;
          return (
            <Stack gap="sm">
              <DataTable label="snapshot policies" rows={rows} columns={columns} rowKey={(row) => row.id} initialSort="id" />
              {rows.map((row) => {
                const last = lastOf(row);
                return last?.failed && <Failed key={row.id} compact title={`Policy ${row.id}: the last snapshot failed`} error={last.details ?? 'no reason given'} />;
              })}
            </Stack>
          );
        }}
      </Answer>
      {making && <NewPolicy onMade={() => void policies.refetch()} onClose={() => setMaking(false)} />}
      {deleting !== null && (
        <Confirm
          title={`Delete policy ${deleting}`}
          action="Delete policy"
          onConfirm={async () => {
            await deleteSnapshotPolicy(deleting);
            await policies.refetch();
          }}
          onClose={() => setDeleting(null)}
        >
          The policy takes no more snapshots, and its existing snapshots no longer expire.
        </Confirm>
      )}
    </>
  );
}

/** Returns the later of the last success and the last failure. */
function lastOf({ last_success: success, last_failure: failure }: SnapshotPolicy): { time: number; failed: boolean; details?: string } | null {
  if (failure && (!success || failure.time > success.time)) return { time: failure.time, failed: true, ...(failure.details && { details: failure.details }) };
  return success ? { time: success.time, failed: false } : null;
}
