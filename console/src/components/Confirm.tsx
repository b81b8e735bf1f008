import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Dialog } from './Dialog';
import { Failed } from './Failed';

interface Props {
  title: string;
  /** Consequences of the action, and whether it can be undone. */
  children: ReactNode;
  /** Label of the confirm button: the action, not "OK". */
  action: string;
  /** Label of the other button. */
  dismiss?: string;
  /** Text that the user has to type first, if a slip would cost data. */
  typed?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/**
 * Confirmation dialog of a destructive action. If the action fails, the dialog stays open and shows the server's error.
 */
export function Confirm({ title, children, action, dismiss = 'Cancel', typed, onConfirm, onClose }: Props) {
  const [text, setText] = useState('');
  const { mutate, isPending, error } = useMutation({ mutationFn: onConfirm, onSuccess: onClose });
  const ready = typed === undefined || text === typed;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (ready) mutate();
  };
  return (
    <Dialog onClose={onClose} title={title} centered>
      <form onSubmit={submit}>
        <Stack>
          <Text component="div" size="sm">
            {children}
          </Text>
          {typed !== undefined && (
            <TextInput
              label={
                <>
                  Type <b>{typed}</b> to confirm
                </>
              }
              aria-label={`Type ${typed} to confirm`}
              autoComplete="off"
              data-autofocus
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
            />
          )}
          {error && <Failed error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {dismiss}
            </Button>
            <Button type="submit" color="red" loading={isPending} disabled={!ready}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
