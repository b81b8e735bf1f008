import { Button, Group, Stack, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { putTenant } from '../../api/tenants';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import { isTenantId } from './quotas';

/** A tenant begins with an id; the rest is declared on its own page. */
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
    <Dialog onClose={onClose} title="Declare a tenant" centered>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label="Id"
            description="1 to 64 letters, digits, - _ . beginning with a letter or digit. It stands in every event and does not change."
            required
            data-autofocus
            value={id}
            error={id !== '' && !isTenantId(id) ? 'Not an id of a tenant' : undefined}
            onChange={(event) => setId(event.currentTarget.value)}
          />
          <TextInput label="Name for people" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!isTenantId(id)}>
              Declare
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
