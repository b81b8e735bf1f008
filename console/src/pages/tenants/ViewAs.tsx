import { Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useSession } from '../../app/session-context';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';

/** Dialog in which an operator starts viewing as a tenant. A reason for the audit log is required. */
export function ViewAs({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const { viewAs } = useSession();
  const [reason, setReason] = useState('');
  const { mutate, isPending, error } = useMutation({ mutationFn: () => viewAs(tenant, reason.trim()) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (reason.trim()) mutate();
  };
  return (
    <Dialog onClose={onClose} title={`View as tenant ${tenant}`} centered>
      <form onSubmit={submit}>
        <Stack>
          <Text size="sm">All your requests are limited to this tenant until you exit the tenant view. The audit log records user, time and reason.</Text>
          <Textarea label="Reason" required data-autofocus autosize minRows={2} maxLength={500} value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!reason.trim()}>
              View as tenant
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
