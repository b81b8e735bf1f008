import { Radio, Select, Stack, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { mountSnapshot, type Snapshot } from '../../api/snapshots';
import { FormDialog } from '../../components/FormDialog';

type Storage = 'shared_cache' | 'full_copy';

/** Dialog that mounts an index of a snapshot as a searchable snapshot. */
export function MountIndex({ repository, snapshot, onClose }: { repository: string; snapshot: Snapshot; onClose: () => void }) {
  const [index, setIndex] = useState<string | null>(snapshot.indices[0] ?? null);
  const [name, setName] = useState('');
  const [storage, setStorage] = useState<Storage>('shared_cache');
  const suggested = `${storage === 'shared_cache' ? 'partial' : 'restored'}-${index ?? ''}`;
  return (
    <FormDialog
      title={`Mount index from ${snapshot.snapshot}`}
      action="Mount"
      ready={index !== null}
      onSubmit={async () => {
        const renamed = name.trim() || suggested;
        await mountSnapshot(repository, snapshot.snapshot, storage, { index: index ?? '', renamed_index: renamed });
        notifications.show({ color: 'green', message: `${renamed} is now searchable.` });
      }}
      onClose={onClose}
    >
      <Select label="Index" searchable allowDeselect={false} data={snapshot.indices} value={index} onChange={setIndex} />
      <Radio.Group label="Storage" value={storage} onChange={(value) => setStorage(value as Storage)}>
        <Stack gap="xs" mt={4}>
          <Radio value="shared_cache" label="Frozen: read through the shared cache" description="Uses no disk space except the cache; searches fetch the data that they need" />
          <Radio value="full_copy" label="Cold: full copy on this node’s disk" description="As fast as a local index; needs its full size on disk" />
        </Stack>
      </Radio.Group>
      <TextInput label="Name of the mounted index" placeholder={suggested} value={name} onChange={(event) => setName(event.currentTarget.value)} />
    </FormDialog>
  );
}
