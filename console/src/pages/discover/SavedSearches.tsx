import { ActionIcon, Button, Group, ScrollArea, Stack, Text, TextInput, Tooltip } from '@mantine/core';
import { IconPencil, IconTrash } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type RefObject, useRef, useState } from 'react';
import { createSaved, deleteSaved, fetchSaved, fetchSavedList, type SavedEntry, type SavedSearchState, updateSaved } from '../../api/saved';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Failed } from '../../components/Failed';
import type { SavedProps } from './SavedMenu';
import classes from './SourcePicker.module.css';

const KEY = ['saved', 'search'];

/** List of saved searches, with a form that saves the current one. */
export default function SavedSearches({ search, saved, onOpen, onSaved, close }: SavedProps & { close: () => void }) {
  const client = useQueryClient();
  const titleInput = useRef<HTMLInputElement>(null);
  const list = useQuery({ queryKey: KEY, queryFn: ({ signal }) => fetchSavedList('search', signal) });
  const current = list.data?.find(({ id }) => id === saved);
  const refresh = () => client.invalidateQueries({ queryKey: KEY });
  const open = useMutation({
    mutationFn: (id: string) => fetchSaved<SavedSearchState>('search', id),
    onSuccess: ({ state, id }) => {
      close();
      onOpen(state.search, id);
    },
  });
  const keep = useMutation({
    mutationFn: ({ title, over }: { title: string; over: SavedEntry | null }) => {
      const body = { title, description: over?.description ?? '', state: { search } };
      return over ? updateSaved('search', over.id, over.version, body) : createSaved('search', body);
    },
    onSuccess: async ({ id }) => {
      await refresh();
      onSaved(id);
    },
  });
  const remove = useMutation({
    mutationFn: (id: string) => deleteSaved('search', id),
    onSuccess: async (_, id) => {
      await refresh();
      if (id === saved) onSaved(null);
      // The row with the focus is gone.
      titleInput.current?.focus();
    },
  });
  const failed = open.error ?? keep.error ?? remove.error;
  return (
    <Stack gap="xs">
      <KeepForm key={saved} input={titleInput} current={current ?? null} busy={keep.isPending} done={keep.isSuccess} onKeep={(title, over) => keep.mutate({ title, over })} />
      {failed && <Failed compact error={failed} />}
      <Answer query={list} what="Saved searches">
        {(entries) =>
          entries.length === 0 ? (
            <Text size="sm" c="dimmed">
              No saved searches yet.
            </Text>
          ) : (
            <ScrollArea.Autosize mah={320}>
              <ul className={classes.list} aria-label="Saved searches">
                {entries.map((entry) => (
                  <Entry
                    key={entry.id}
                    entry={entry}
                    current={entry.id === saved}
                    onOpen={() => open.mutate(entry.id)}
                    onRename={(title) => rename(entry, title).then(refresh)}
                    onRemove={() => remove.mutate(entry.id)}
                  />
                ))}
              </ul>
            </ScrollArea.Autosize>
          )
        }
      </Answer>
    </Stack>
  );
}

async function rename(entry: SavedEntry, title: string) {
  const { state, version, description } = await fetchSaved<SavedSearchState>('search', entry.id);
  return updateSaved('search', entry.id, version, { title, description: description ?? '', state });
}

interface KeepProps {
  input: RefObject<HTMLInputElement | null>;
  current: SavedEntry | null;
  busy: boolean;
  done: boolean;
  onKeep: (title: string, over: SavedEntry | null) => void;
}

function KeepForm({ input, current, busy, done, onKeep }: KeepProps) {
  const [title, setTitle] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (title.trim()) onKeep(title.trim(), null);
  };
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <TextInput ref={input} size="xs" label="Save this search as" flex={1} autoFocus data-autofocus maxLength={200} value={title} onChange={(event) => setTitle(event.currentTarget.value)} />
        <Button size="xs" type="submit" loading={busy} disabled={title.trim() === ''}>
          Save
        </Button>
      </Group>
      {current && (
        <Button mt={6} size="compact-xs" variant="default" disabled={busy} onClick={() => onKeep(current.title, current)}>
          Update “{current.title}”
        </Button>
      )}
      <Text size="xs" c="dimmed" role="status">
        {done ? 'Saved.' : ''}
      </Text>
    </form>
  );
}

interface EntryProps {
  entry: SavedEntry;
  current: boolean;
  onOpen: () => void;
  onRename: (title: string) => Promise<unknown>;
  onRemove: () => void;
}

function Entry({ entry, current, onOpen, onRename, onRemove }: EntryProps) {
  const format = useFormat();
  const [mode, setMode] = useState<'shown' | 'rename' | 'remove'>('shown');
  const [title, setTitle] = useState(entry.title);
  /** Action that replaced the row: its button gets the focus when the row is back. */
  const [left, setLeft] = useState<'rename' | 'remove' | null>(null);
  const show = () => {
    setLeft(mode === 'shown' ? null : mode);
    setMode('shown');
  };
  const renaming = useMutation({ mutationFn: onRename, onSuccess: show });
  if (mode === 'rename') {
    return (
      <li>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (title.trim()) renaming.mutate(title.trim());
          }}
        >
          <Group gap={6} wrap="nowrap" p={4}>
            <TextInput size="xs" flex={1} aria-label={`New name for ${entry.title}`} autoFocus maxLength={200} value={title} onChange={(event) => setTitle(event.currentTarget.value)} />
            <Button size="compact-xs" type="submit" loading={renaming.isPending}>
              Rename
            </Button>
            <Button size="compact-xs" variant="default" onClick={show}>
              Cancel
            </Button>
          </Group>
          {renaming.error && <Failed compact error={renaming.error} />}
        </form>
      </li>
    );
  }
  if (mode === 'remove') {
    return (
      <li>
        <Group gap={6} p={4}>
          <Text size="sm">Delete “{entry.title}”?</Text>
          <Button size="compact-xs" color="red" onClick={onRemove}>
            Delete
          </Button>
          <Button size="compact-xs" variant="default" autoFocus onClick={show}>
            Cancel
          </Button>
        </Group>
      </li>
    );
  }
  return (
    <li>
      <Group gap={2} wrap="nowrap">
        <button type="button" className={classes.choice} aria-current={current || undefined} onClick={onOpen}>
          <bdi className={classes.name}>{entry.title}</bdi>
          <Text span size="xs" c="dimmed">
            {format.minute(entry.updated_ms)}
            {entry.updated_by && ` · ${entry.updated_by}`}
          </Text>
        </button>
        <Tooltip label="Rename">
          <ActionIcon variant="subtle" color="gray" size={24} autoFocus={left === 'rename'} aria-label={`Rename ${entry.title}`} onClick={() => setMode('rename')}>
            <IconPencil size={14} aria-hidden />
          </ActionIcon>
        </Tooltip>
        <Tooltip label="Delete">
          <ActionIcon variant="subtle" color="gray" size={24} autoFocus={left === 'remove'} aria-label={`Delete ${entry.title}`} onClick={() => setMode('remove')}>
            <IconTrash size={14} aria-hidden />
          </ActionIcon>
        </Tooltip>
      </Group>
    </li>
  );
}
