import { Checkbox, MultiSelect, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { restoreSnapshot, type Snapshot } from '../../api/snapshots';
import { FormDialog } from '../../components/FormDialog';

/** Puts indices of a snapshot back, under their own names or with something before these. */
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
        notifications.show({ color: 'green', message: 'The restore has begun. Indices shows what is there, Tasks how it goes.' });
      }}
      onClose={onClose}
    >
      <MultiSelect
        label="Indices and data streams"
        description="Empty: all of them."
        searchable
        data={[...streams, ...snapshot.indices.filter((index) => !streams.has(index))]}
        value={indices}
        onChange={setIndices}
      />
      <TextInput
        label="Put before their names"
        description="Empty: their own names. An open index of the same name is not replaced; the server refuses."
        value={prefix}
        onChange={(event) => setPrefix(event.currentTarget.value)}
      />
      <Checkbox label="Aliases too" checked={aliases} onChange={(event) => setAliases(event.currentTarget.checked)} />
      {snapshot.include_global_state && (
        <Checkbox label="Templates, policies and settings of the cluster too" checked={globalState} onChange={(event) => setGlobalState(event.currentTarget.checked)} />
      )}
      {snapshot.state === 'PARTIAL' && (
        <Text size="sm" c="var(--mantine-color-error)">
          This snapshot is partial: shards that are missing from it are restored empty.
        </Text>
      )}
    </FormDialog>
  );
}
