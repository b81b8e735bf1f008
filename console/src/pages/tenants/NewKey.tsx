import { Alert, Button, Group, Radio, Select, Stack, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { createApiKey } from '../../api/api-keys';
import { CopyBlock } from '../../components/CopyBlock';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import { KEY_USES, type KeyUse } from './key-state';

const EXPIRATIONS = [
  { value: '30d', label: 'In 30 days' },
  { value: '90d', label: 'In 90 days' },
  { value: '365d', label: 'In a year' },
  { value: 'never', label: 'Never' },
];

/** Makes a key and shows its secret, the only time that it can be seen. */
export function NewKey({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState(`${tenant}-shipper`);
  const [expiration, setExpiration] = useState('365d');
  const [use, setUse] = useState<KeyUse>('write');
  const { mutate, data, isPending, error } = useMutation({
    mutationFn: () => {
      const roles = KEY_USES[use].roles;
      return createApiKey({ name: name.trim(), tenant, ...(expiration !== 'never' && { expiration }), ...(roles && { role_descriptors: roles }) });
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ['api-keys'] }),
    // Nothing keeps the secret once the dialog is closed.
    gcTime: 0,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) mutate();
  };
  if (data) {
    return (
      <Dialog onClose={onClose} title={`The key ${data.name}`} centered size="lg" closeOnClickOutside={false}>
        <Stack>
          <Alert color="yellow" title="Take it now">
            The server keeps only a hash of the secret, and nobody can show it again.
          </Alert>
          <CopyBlock label="the key as clients send it" text={data.encoded} />
          <CopyBlock label="the header" text={`Authorization: ApiKey ${data.encoded}`} />
          <Group justify="flex-end">
            {/* What was pressed to make the key is gone. */}
            <Button autoFocus onClick={onClose}>
              I have it
            </Button>
          </Group>
        </Stack>
      </Dialog>
    );
  }
  return (
    <Dialog onClose={onClose} title={`Make a key for ${tenant}`} centered>
      <form onSubmit={submit}>
        <Stack>
          <TextInput label="Name" required data-autofocus value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <Radio.Group label="For what" value={use} onChange={(value) => setUse(value as KeyUse)}>
            <Stack gap="xs" mt={4}>
              {Object.entries(KEY_USES).map(([value, { label, help }]) => (
                <Radio key={value} value={value} label={label} description={help} />
              ))}
            </Stack>
          </Radio.Group>
          <Select label="Expires" allowDeselect={false} data={EXPIRATIONS} value={expiration} onChange={(value) => setExpiration(value ?? '365d')} />
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!name.trim()}>
              Make the key
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
