import { Button, Group, Select, Stack, Text } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type LifecycleState, listPolicies, moveToStep } from '../../api/lifecycle';
import { Answer } from '../../components/Answer';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';

interface Props {
  state: LifecycleState;
  onClose: () => void;
  onMoved: () => void;
}

/** Dialog that moves an index to a phase of its policy, or to one action of it. */
export function MoveStep({ state, onClose, onMoved }: Props) {
  const policies = useQuery({ queryKey: ['policies'], queryFn: ({ signal }) => listPolicies(signal) });
  const [phase, setPhase] = useState<string | null>(null);
  const [action, setAction] = useState<string | null>(null);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      moveToStep(
        state.index,
        { phase: state.phase ?? '', action: state.action ?? '', name: state.step ?? '' },
        { phase: phase ?? '', ...(action && { action }) },
      ),
    onSuccess: () => {
      onMoved();
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (phase) mutate();
  };
  return (
    <Dialog onClose={onClose} title={`Move ${state.index}`} centered size="lg">
      <Answer query={policies} what="Policies">
        {(all) => {
          const phases = all[state.policy ?? '']?.policy.phases ?? {};
          return (
            <form onSubmit={submit}>
              <Stack>
                <Text size="sm">
                  Current phase: {state.phase}, action: {state.action}, step: {state.step}. If the index has moved on when you submit this, the request fails and nothing changes.
                </Text>
                <Select
                  label="Phase"
                  required
                  data={Object.keys(phases)}
                  value={phase}
                  onChange={(value) => {
                    setPhase(value);
                    setAction(null);
                  }}
                />
                <Select
                  label="Action"
                  description="Leave empty to start with the first action of the phase."
                  clearable
                  disabled={!phase}
                  data={Object.keys(phases[phase ?? '']?.actions ?? {})}
                  value={action}
                  onChange={setAction}
                />
                {phase === 'delete' && (
                  <Text size="sm" c="var(--mantine-color-error)">
                    The delete phase deletes the index and its data.
                  </Text>
                )}
                {error && <Failed error={error} compact />}
                <Group justify="flex-end">
                  <Button variant="default" onClick={onClose}>
                    Cancel
                  </Button>
                  <Button type="submit" color={phase === 'delete' ? 'red' : 'glacier'} disabled={!phase} loading={isPending}>
                    Move
                  </Button>
                </Group>
              </Stack>
            </form>
          );
        }}
      </Answer>
    </Dialog>
  );
}
