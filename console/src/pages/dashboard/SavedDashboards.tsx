import { ActionIcon, Button, Checkbox, Group, Stack, Text, TextInput, UnstyledButton } from '@mantine/core';
import { IconDeviceFloppy, IconFolderOpen, IconTrash } from '@tabler/icons-react';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createSaved, deleteSaved, fetchSaved, fetchSavedList, updateSaved } from '../../api/saved';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Dialog } from '../../components/Dialog';
import { Empty } from '../../components/Empty';
import { Failed } from '../../components/Failed';
import { FormDialog } from '../../components/FormDialog';
import { Menu } from '../../components/Menu';
import { type DashboardState, decodeState, encodeState, type Panel } from './state';

/** Saved state of a dashboard: its panels, for other readers, and the URL that shows it. */
interface SavedDashboardState {
  panels: Panel[];
  address: string;
}

interface Props {
  state: DashboardState;
  /** Displayed panels, including defaults that are not in the URL. */
  panels: Panel[];
  onOpen: (state: DashboardState) => void;
}

/** Menu to open, save and delete dashboards of the tenant. */
export function SavedDashboards({ state, panels, onOpen }: Props) {
  const [asking, setAsking] = useState<'open' | 'save' | null>(null);
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button size="xs" h={32} variant="default">
            Dashboards
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconFolderOpen size={14} aria-hidden />} onClick={() => setAsking('open')}>
            Open…
          </Menu.Item>
          <Menu.Item leftSection={<IconDeviceFloppy size={14} aria-hidden />} onClick={() => setAsking('save')}>
            Save…
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {asking === 'open' && (
        <Open
          onOpen={(next) => {
            setAsking(null);
            onOpen(next);
          }}
          onClose={() => setAsking(null)}
        />
      )}
      {asking === 'save' && <Save state={{ ...state, panels }} panels={panels} onSaved={onOpen} onClose={() => setAsking(null)} />}
    </>
  );
}

function Open({ onOpen, onClose }: { onOpen: (state: DashboardState) => void; onClose: () => void }) {
  const format = useFormat();
  const client = useQueryClient();
  const list = useQuery({ queryKey: ['saved', 'dashboard'], queryFn: ({ signal }) => fetchSavedList('dashboard', signal), staleTime: 0 });
  const open = useMutation({
    mutationFn: (id: string) => fetchSaved<SavedDashboardState>('dashboard', id),
    onSuccess: ({ id, version, state }) => onOpen({ ...decodeState(state.address).state, saved: { id, version } }),
  });
  const remove = useMutation({ mutationFn: (id: string) => deleteSaved('dashboard', id), onSuccess: () => client.invalidateQueries({ queryKey: ['saved', 'dashboard'] }) });
  return (
    <Dialog onClose={onClose} title="Open dashboard" centered>
      <Answer query={list} what="Dashboards">
        {(entries) =>
          entries.length === 0 ? (
            <Empty title="No saved dashboards">Save the current dashboard to list it here.</Empty>
          ) : (
            <Stack gap={4}>
              {entries.map((entry) => (
                <Group key={entry.id} gap="xs" wrap="nowrap">
                  <UnstyledButton flex={1} p="xs" onClick={() => open.mutate(entry.id)}>
                    <Text size="sm" fw={600}>
                      {entry.title}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {entry.updated_by ? `${entry.updated_by}, ` : ''}
                      {format.minute(entry.updated_ms)}
                    </Text>
                  </UnstyledButton>
                  <ActionIcon variant="subtle" color="red" aria-label={`Delete dashboard ${entry.title}`} onClick={() => remove.mutate(entry.id)}>
                    <IconTrash size={15} aria-hidden />
                  </ActionIcon>
                </Group>
              ))}
            </Stack>
          )
        }
      </Answer>
      {(open.error ?? remove.error) && <Failed compact error={open.error ?? remove.error} />}
    </Dialog>
  );
}

function Save({ state, panels, onSaved, onClose }: { state: DashboardState; panels: Panel[]; onSaved: (state: DashboardState) => void; onClose: () => void }) {
  const client = useQueryClient();
  const { saved } = state;
  const before = useQuery({ queryKey: ['saved', 'dashboard', saved?.id], queryFn: ({ signal }) => fetchSaved<SavedDashboardState>('dashboard', saved?.id ?? '', signal), enabled: saved !== null });
  const [title, setTitle] = useState<string | null>(null);
  const [replace, setReplace] = useState(true);
  const shown = title ?? before.data?.title ?? '';
  return (
    <FormDialog
      title="Save dashboard"
      action="Save"
      ready={shown.trim() !== ''}
      onSubmit={async () => {
        const body = { title: shown.trim(), description: '', state: { panels, address: encodeState({ ...state, saved: null }) } };
        const { id, version } = saved && replace ? await updateSaved<SavedDashboardState>('dashboard', saved.id, saved.version, body) : await createSaved<SavedDashboardState>('dashboard', body);
        await client.invalidateQueries({ queryKey: ['saved', 'dashboard'] });
        notifications.show({ color: 'green', message: 'Dashboard saved. You can share its URL.' });
        onSaved({ ...state, saved: { id, version } });
      }}
      onClose={onClose}
    >
      <TextInput label="Title" required data-autofocus value={shown} onChange={(event) => setTitle(event.currentTarget.value)} />
      {saved && <Checkbox label={`Update “${before.data?.title ?? '…'}”`} checked={replace} onChange={(event) => setReplace(event.currentTarget.checked)} />}
    </FormDialog>
  );
}
