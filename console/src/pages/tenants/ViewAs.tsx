import { Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useSession } from '../../app/session-context';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';

/** An operator takes a tenant's view: never by accident, and never without a reason in the audit log. */
export function ViewAs({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const { viewAs } = useSession();
  const [reason, setReason] = useState('');
  const { mutate, isPending, error } = useMutation({ mutationFn: () => viewAs(tenant, reason.trim()) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (reason.trim()) mutate();
  };
  return (
    <Dialog onClose={onClose} title={`See what tenant ${tenant} sees`} centered>
      <form onSubmit={submit}>
        <Stack>
          <Text size="sm">Until you go back, every request of yours has the scope of this tenant. The audit log keeps who looked, when, and the reason.</Text>
          <Textarea label="Reason" required data-autofocus autosize minRows={2} maxLength={500} value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!reason.trim()}>
              Take its view
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
