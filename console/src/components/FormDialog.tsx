import { Button, Group, Stack } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { FormEvent, ReactNode } from 'react';
import { Dialog } from './Dialog';
import { Failed } from './Failed';

interface Props {
  title: string;
  /** Label of the submit button: the action, not "OK". */
  action: string;
  /** Whether the form can be submitted. */
  ready?: boolean;
  /** The dialog closes when this succeeds. */
  onSubmit: () => Promise<unknown>;
  onClose: () => void;
  size?: string;
  children: ReactNode;
}

/** Dialog with a form. If the request fails, the dialog stays open and shows the server's error. */
export function FormDialog({ title, action, ready = true, onSubmit, onClose, size = 'md', children }: Props) {
  const { mutate, isPending, error } = useMutation({ mutationFn: onSubmit, onSuccess: onClose });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (ready) mutate();
  };
  return (
    <Dialog onClose={onClose} title={title} centered size={size}>
      <form onSubmit={submit}>
        <Stack>
          {children}
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={isPending} disabled={!ready}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
