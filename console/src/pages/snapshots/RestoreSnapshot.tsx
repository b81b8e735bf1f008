import { Checkbox, MultiSelect, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { restoreSnapshot, type Snapshot } from '../../api/snapshots';
import { FormDialog } from '../../components/FormDialog';

/** Dialog that restores indices of a snapshot, under their names or with a prefix. */
export function RestoreSnapshot({ repository, snapshot, onClose }: { repository: string; snapshot: Snapshot; onClose: () => void }) {
  const [indices, setIndices] = useState<string[]>([]);
  const [prefix, setPrefix] = useState('restored-');
  const [aliases, setAliases] = useState(false);
  const [globalState, setGlobalState] = useState(false);
  const streams = new Set(snapshot.data_streams);
  return (
    <FormDialog
      title={`Restore from ${snapshot.snapshot}`}
      action="Restore"
      onSubmit={async () => {
        await restoreSnapshot(repository, snapshot.snapshot, {
          indices,
          ...(prefix && { rename_pattern: '(.+)', rename_replacement: `${prefix}$1` }),
          include_aliases: aliases,
          include_global_state: globalState,
          partial: snapshot.state === 'PARTIAL',
        });
        notifications.show({ color: 'green', message: 'Restore started. Tasks shows its progress, Indices its results.' });
      }}
      onClose={onClose}
    >
      <MultiSelect
        label="Indices and data streams"
        description="Leave empty for all."
        searchable
        data={[...streams, ...snapshot.indices.filter((index) => !streams.has(index))]}
        value={indices}
        onChange={setIndices}
      />
      <TextInput
        label="Name prefix"
        description="Leave empty to keep the names. Restoring over an open index fails."
        value={prefix}
        onChange={(event) => setPrefix(event.currentTarget.value)}
      />
      <Checkbox label="Include aliases" checked={aliases} onChange={(event) => setAliases(event.currentTarget.checked)} />
      {snapshot.include_global_state && (
        <Checkbox label="Include cluster state: templates, policies and settings" checked={globalState} onChange={(event) => setGlobalState(event.currentTarget.checked)} />
      )}
      {snapshot.state === 'PARTIAL' && (
        <Text size="sm" c="var(--mantine-color-error)">
          This snapshot is partial: missing shards are restored empty.
        </Text>
      )}
    </FormDialog>
  );
}
