import { Anchor, Badge, Button, Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';
import { deleteWindow, fetchWindow, listWindows, putWindow, type StoredWindow } from '../../../api/maintenance-windows';
import { useFormat } from '../../../app/preferences';
import { Answer } from '../../../components/Answer';
import { Confirm } from '../../../components/Confirm';
import { type Column, DataTable } from '../../../components/DataTable';
import { Empty } from '../../../components/Empty';
import { PageFrame } from '../../../components/PageFrame';
import { RuleTabs } from '../RuleTabs';
import { useRules } from '../use-rules';
import { scopeText, STATES, whenText, type WindowState, windowState } from './describe';
import { endedNow } from './occurrences';
import { NEW_WINDOW_PATH, suppressedPath, windowPath, WINDOWS_QUERY } from './paths';

/** A window starts and ends without a request. */
const REFRESH_MS = 10_000;

const COLORS: Record<WindowState, string> = { running: 'orange', upcoming: 'blue', finished: 'gray', invalid: 'red' };

interface Row {
  id: string;
  window: StoredWindow;
  state: WindowState;
}

interface Asked {
  action: 'end' | 'delete';
  row: Row;
}

/** All maintenance windows, the running ones first. */
export function WindowList() {
  const client = useQueryClient();
  const windows = useQuery({ queryKey: WINDOWS_QUERY, queryFn: ({ signal }) => listWindows(signal), refetchInterval: REFRESH_MS });
  const [asked, setAsked] = useState<Asked | null>(null);
  const columns = useColumns(setAsked);
  const rows = useMemo(() => Object.entries(windows.data ?? {}).map(([id, window]): Row => ({ id, window, state: windowState(window.status) })), [windows.data]);
  const changed = () => client.invalidateQueries({ queryKey: WINDOWS_QUERY });
  return (
    <PageFrame
      title="Maintenance windows"
      about="Periods in which alerts are stored and marked, but neither delivered nor escalated."
      actions={
        <Button size="xs" component={Link} to={NEW_WINDOW_PATH} leftSection={<IconPlus size={14} aria-hidden />}>
          Create maintenance window
        </Button>
      }
    >
      <RuleTabs value="maintenance">
        <Answer query={windows} what="Maintenance windows">
          {() => (
            <>
              <DataTable label="maintenance windows" rows={rows} columns={columns} rowKey={({ id }) => id} initialSort="state" height={620} hideWhenEmpty />
              {rows.length === 0 && <Empty title="No maintenance windows">Create one for a planned change: alerts raised in the window are stored and shown in Alerts, but not delivered.</Empty>}
            </>
          )}
        </Answer>
      </RuleTabs>
      {asked?.action === 'end' && <EndNow row={asked.row} onEnded={changed} onClose={() => setAsked(null)} />}
      {asked?.action === 'delete' && (
        <Confirm
          title="Delete maintenance window"
          action="Delete maintenance window"
          onConfirm={async () => {
            await deleteWindow(asked.row.id);
            await changed();
          }}
          onClose={() => setAsked(null)}
        >
          {asked.row.state === 'running' ? (
            <>
              <b>{asked.row.window.title}</b> is running: alerts are delivered from now on.
            </>
          ) : (
            <>
              <b>{asked.row.window.title}</b> suppresses no further alerts.
            </>
          )}{' '}
          Alerts that it has suppressed keep their mark.
        </Confirm>
      )}
    </PageFrame>
  );
}

function EndNow({ row: { id, window }, onEnded, onClose }: { row: Row; onEnded: () => Promise<unknown>; onClose: () => void }) {
  const format = useFormat();
  const { next_start: next } = window.status;
  return (
    <Confirm
      title="End maintenance window"
      action="End now"
      onConfirm={async () => {
        // The newest definition: another operator may have changed it since the list was fetched.
        const newest = await fetchWindow(id);
        if (newest.status.active) await putWindow(id, endedNow(newest, Date.now()));
        await onEnded();
      }}
      onClose={onClose}
    >
      <Stack gap={4}>
        <Text size="sm">
          <b>{window.title}</b> ends now: further alerts are delivered. Alerts that it has suppressed are not.
        </Text>
        <Text size="sm">{window.repeat && next ? `It starts again on ${format.minute(Date.parse(next))}.` : 'It does not start again.'}</Text>
      </Stack>
    </Confirm>
  );
}

function useColumns(onAsk: (asked: Asked) => void): Column<Row>[] {
  const format = useFormat();
  const rules = useRules();
  return useMemo(() => {
    const time = (text: string | null | undefined) => (text ? format.minute(Date.parse(text)) : null);
    const scope = ({ window }: Row) => scopeText(window, (id) => rules.data?.[id]?.name ?? id);
    return [
      {
        id: 'state',
        title: 'State',
        width: 110,
        value: ({ state }) => state,
        sortValue: ({ state, window }) => STATES.indexOf(state) * 1e15 + (Date.parse(window.status.next_start ?? '') || 0),
        cell: ({ state, window }) => (
          <Badge variant="light" color={COLORS[state]} tt="none" title={window.status.error ?? ''}>
            {state}
          </Badge>
        ),
      },
      {
        id: 'title',
        title: 'Title',
        value: ({ window }) => window.title,
        cell: ({ id, window }) => (
          <Anchor component={Link} to={windowPath(id)} size="sm">
            {window.title}
          </Anchor>
        ),
      },
      { id: 'until', title: 'Running until', width: 165, value: ({ window }) => time(window.status.active_until), sortValue: ({ window }) => Date.parse(window.status.active_until ?? '') || 0 },
      { id: 'next', title: 'Next start', width: 165, value: ({ window }) => time(window.status.next_start), sortValue: ({ window }) => Date.parse(window.status.next_start ?? '') || 0 },
      { id: 'when', title: 'When', width: 330, value: ({ window }) => whenText(window, format), sortable: false },
      { id: 'scope', title: 'For', value: (row) => (row.window.status.error ? row.window.status.error : scope(row)) },
      {
        id: 'actions',
        title: '',
        width: 240,
        sortable: false,
        value: () => null,
        cell: (row) => (
          <Group gap={4} wrap="nowrap">
            <Button size="compact-xs" variant="subtle" component={Link} to={suppressedPath(row.id)} aria-label={`Alerts in ${row.window.title}`}>
              Alerts
            </Button>
            {row.state === 'running' && (
              <Button size="compact-xs" variant="subtle" aria-label={`End now: ${row.window.title}`} onClick={() => onAsk({ action: 'end', row })}>
                End now
              </Button>
            )}
            <Button size="compact-xs" variant="subtle" c="red" aria-label={`Delete ${row.window.title}`} onClick={() => onAsk({ action: 'delete', row })}>
              Delete
            </Button>
          </Group>
        ),
      },
    ];
  }, [format, rules.data, onAsk]);
}
