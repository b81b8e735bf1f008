import { Checkbox, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { putRepository } from '../../api/repositories';
import { FormDialog } from '../../components/FormDialog';
import { isPlaceComplete, PLACE_TYPES, placeSettings } from './places';

/** Dialog that registers a repository. The server verifies it first, unless that is switched off. */
export function RegisterRepository({ onClose, onRegistered }: { onClose: () => void; onRegistered: (name: string) => Promise<unknown> }) {
  const [name, setName] = useState('');
  const [type, setType] = useState('s3');
  const [filled, setFilled] = useState<Record<string, string>>({});
  const [readonly, setReadonly] = useState(false);
  const [verify, setVerify] = useState(true);
  const fields = PLACE_TYPES.find(({ value }) => value === type)?.fields ?? [];
  return (
    <FormDialog
      title="Register repository"
      action="Register"
      ready={name.trim() !== '' && isPlaceComplete(type, filled)}
      onSubmit={async () => {
        await putRepository(name.trim(), type, placeSettings(type, filled, readonly), verify);
        await onRegistered(name.trim());
      }}
      onClose={onClose}
    >
      <TextInput label="Name" required data-autofocus value={name} onChange={(event) => setName(event.currentTarget.value)} />
      <Select label="Type" allowDeselect={false} data={PLACE_TYPES.map(({ value, label }) => ({ value, label }))} value={type} onChange={(value) => setType(value ?? 's3')} />
      {fields.map(({ name: field, label, help, required }) => (
        <TextInput
          key={field}
          label={label}
          description={help}
          required={required ?? false}
          value={filled[field] ?? ''}
          onChange={(event) => setFilled({ ...filled, [field]: event.currentTarget.value })}
        />
      ))}
      {type !== 'url' && <Checkbox label="Read-only" checked={readonly} onChange={(event) => setReadonly(event.currentTarget.checked)} />}
      <Checkbox label="Test connection: write an object and read it back" checked={verify} onChange={(event) => setVerify(event.currentTarget.checked)} />
    </FormDialog>
  );
}
