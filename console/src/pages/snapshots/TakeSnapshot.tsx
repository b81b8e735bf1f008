import { Checkbox, TextInput } from '@mantine/core';
import { useState } from 'react';
import { createSnapshot } from '../../api/snapshots';
import { FormDialog } from '../../components/FormDialog';
import { IndexNames } from './IndexNames';

/** Default name such as `manual-2026.11.22-15.04.05`; names are lower case. */
const defaultName = () => `manual-${new Date().toISOString().slice(0, 19).replaceAll('-', '.').replace('T', '-').replaceAll(':', '.')}`;

/** Dialog that starts a snapshot; the table shows its progress. */
export function TakeSnapshot({ repository, onTaken, onClose }: { repository: string; onTaken: () => void; onClose: () => void }) {
  const [name, setName] = useState(defaultName);
  const [indices, setIndices] = useState<string[]>([]);
  const [partial, setPartial] = useState(false);
  return (
    <FormDialog
      title={`Take snapshot in ${repository}`}
      action="Take snapshot"
      ready={name.trim() !== ''}
      onSubmit={async () => {
        await createSnapshot(repository, name.trim(), indices, partial);
        onTaken();
      }}
      onClose={onClose}
    >
      <TextInput label="Name" required data-autofocus value={name} onChange={(event) => setName(event.currentTarget.value)} />
      <IndexNames value={indices} onChange={setIndices} />
      <Checkbox label="Allow partial snapshot" checked={partial} onChange={(event) => setPartial(event.currentTarget.checked)} />
    </FormDialog>
  );
}
