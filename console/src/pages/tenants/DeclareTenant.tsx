import { Button, Group, Stack, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { putTenant } from '../../api/tenants';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import { isTenantId } from './quotas';

/** Dialog that creates a tenant with an id and a name. Its page has the other settings. */
export function DeclareTenant({ onClose, onDeclared }: { onClose: () => void; onDeclared: (id: string) => void }) {
  const [id, setId] = useState('');
  const [name, setName] = useState('');
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => putTenant(id, { ...(name.trim() && { display_name: name.trim() }) }),
    onSuccess: () => onDeclared(id),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isTenantId(id)) mutate();
  };
  return (
    <Dialog onClose={onClose} title="Create tenant" centered>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="ID"
            description="1 to 64 letters, digits, - _ . starting with a letter or digit. Every event contains it, so it cannot be changed."
            required
            data-autofocus
            value={id}
            error={id !== '' && !isTenantId(id) ? 'Invalid tenant ID' : undefined}
            onChange={(event) => setId(event.currentTarget.value)}
          />
          <TextInput label="Display name" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!isTenantId(id)}>
              Create
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
