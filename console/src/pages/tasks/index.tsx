import { Badge, Button, SegmentedControl, Switch } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useSearchParams } from 'react-router';
import { cancelTask, listTasks, type Task } from '../../api/tasks';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { KINDS, kindOf, type TaskKind } from './kinds';

/** Short enough to show slow searches. */
const REFRESH_MS = 1500;

/** Running requests, with an action to cancel one. */
export default function Tasks() {
  const format = useFormat();
  const [params, setParams] = useSearchParams();
  const kind = (params.get('kind') ?? 'all') as TaskKind | 'all';
  const [live, setLive] = useState(true);
  const [cancelling, setCancelling] = useState<Task | null>(null);
  const tasks = useQuery({ queryKey: ['tasks'], queryFn: ({ signal }) => listTasks(signal), refetchInterval: live ? REFRESH_MS : false, staleTime: 0 });
  const columns = useMemo(
    (): Column<Task>[] => [
      { id: 'action', title: 'Action', value: (task) => task.action },
      { id: 'description', title: 'Description', value: (task) => task.description ?? null },
      { id: 'start', title: 'Started', width: 220, value: (task) => task.start_time_in_millis, cell: (task) => format.time(task.start_time_in_millis) },
      {
        id: 'running',
        title: 'Running for',
        width: 120,
        numeric: true,
        value: (task) => task.running_time_in_nanos,
        cell: (task) => format.duration(task.running_time_in_nanos / 1e6),
      },
      { id: 'opaque', title: 'X-Opaque-Id', width: 160, value: (task) => task.headers['X-Opaque-Id'] ?? null },
      {
        id: 'cancel',
        title: '',
        width: 110,
        sortable: false,
        value: () => null,
        cell: (task) =>
          task.cancelled ? (
            <Badge variant="light" color="orange">
              cancelling
            </Badge>
          ) : (
            task.cancellable && (
              <Button size="compact-xs" variant="default" c="red" onClick={() => setCancelling(task)} aria-label={`Cancel task ${task.id}, ${task.action}`}>
                Cancel
              </Button>
            )
          ),
      },
    ],
    [format],
  );
  return (
    <PageFrame title="Tasks" about="Requests running on this server.">
      <Answer query={tasks} what="Tasks">
        {(all) => {
          const rows = all.filter((task) => kind === 'all' || kindOf(task.action) === kind);
          const tools = (
            <>
              <SegmentedControl
                size="xs"
                aria-label="Kind of task"
                data={[{ value: 'all', label: `All (${format.number(all.length)})` }, ...KINDS.map(({ value, label }) => ({ value, label }))]}
                value={kind}
                onChange={(next) => setParams(next === 'all' ? {} : { kind: next }, { replace: true })}
              />
              <Switch size="xs" label="Live" checked={live} onChange={(event) => setLive(event.currentTarget.checked)} />
            </>
          );
          return (
            <>
              <DataTable label="tasks" rows={rows} columns={columns} rowKey={(task) => String(task.id)} initialSort="-running" tools={tools} hideWhenEmpty />
              {rows.length === 0 && <Empty title="No running tasks">Searches, writes, snapshots and other requests appear here while they run.</Empty>}
            </>
          );
        }}
      </Answer>
      {cancelling && (
        <Confirm
          title="Cancel task"
          action="Cancel task"
          dismiss="Keep running"
          onConfirm={async () => {
            await cancelTask(cancelling);
            await tasks.refetch();
          }}
          onClose={() => setCancelling(null)}
        >
          {cancelling.action}: {cancelling.description} Its client receives an error.
        </Confirm>
      )}
    </PageFrame>
  );
}
