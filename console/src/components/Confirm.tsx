import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Dialog } from './Dialog';
import { Failed } from './Failed';

interface Props {
  title: string;
  /** What happens, and what cannot be undone. */
  children: ReactNode;
  /** What the button says: the deed, not "OK". */
  action: string;
  /** What has to be typed first, where a slip would cost data. */
  typed?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

/** Asks before anything that destroys. What fails stays in the dialog, with the server's words. */
export function Confirm({ title, children, action, typed, onConfirm, onClose }: Props) {
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
              Keep
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
