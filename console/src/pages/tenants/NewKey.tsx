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
  { value: '365d', label: 'In 1 year' },
  { value: 'never', label: 'Never' },
];

/** Dialog that creates an API key and shows its secret once. */
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
    // The secret is dropped from memory when the dialog closes.
    gcTime: 0,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) mutate();
  };
  if (data) {
    return (
      <Dialog onClose={onClose} title={`API key ${data.name}`} centered size="lg" closeOnClickOutside={false}>
        <Stack>
          <Alert color="yellow" title="Copy it now">
            The server stores only a hash of the secret, so it cannot be shown again.
          </Alert>
          <CopyBlock label="encoded key" text={data.encoded} />
          <CopyBlock label="Authorization header" text={`Authorization: ApiKey ${data.encoded}`} />
          <Group justify="flex-end">
            {/* The button that had the focus is gone. */}
            <Button autoFocus onClick={onClose}>
              Done
            </Button>
          </Group>
        </Stack>
      </Dialog>
    );
  }
  return (
    <Dialog onClose={onClose} title={`Create API key for ${tenant}`} centered>
      <form onSubmit={submit}>
        <Stack>
          <TextInput label="Name" required data-autofocus value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <Radio.Group label="Permissions" value={use} onChange={(value) => setUse(value as KeyUse)}>
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
              Create
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
