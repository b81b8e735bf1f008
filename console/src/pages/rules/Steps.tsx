import { ActionIcon, Button, Group, Paper, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconPlus, IconX } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { QueryFields } from './QueryFields';
import { addStep, moveStep, type Problems, type StepInput, STEPS_MAX, STEPS_MIN } from './window-form';

interface Props {
  steps: StepInput[];
  ordered: boolean;
  problems: Problems;
  onChange: (steps: StepInput[]) => void;
}

/** Steps of a sequence, which can be added, removed and moved; the focus goes with them. */
export function Steps({ steps, ordered, problems, onChange }: Props) {
  const list = useRef<HTMLOListElement>(null);
  /** Step whose query gets the focus once it is rendered. */
  const [focused, setFocused] = useState<number | null>(null);
  const [said, setSaid] = useState('');
  useEffect(() => {
    if (focused === null) return;
    list.current?.querySelector<HTMLTextAreaElement>(`[data-step="${focused}"] textarea`)?.focus();
    setFocused(null);
  }, [focused]);
  const replace = (at: number, changed: Partial<StepInput>) => onChange(steps.map((step, other) => (other === at ? { ...step, ...changed } : step)));
  const move = (from: number, to: number) => {
    if (to < 0 || to >= steps.length) return;
    onChange(moveStep(steps, from, to));
    setSaid(`Step ${from + 1} is now step ${to + 1} of ${steps.length}`);
  };
  const add = () => {
    const more = addStep(steps);
    onChange(more);
    setFocused(more.at(-1)?.key ?? null);
    setSaid(`Step ${more.length} added`);
  };
  const remove = (at: number) => {
    const others = steps.filter((_, other) => other !== at);
    onChange(others);
    setFocused((others[at] ?? others.at(-1))?.key ?? null);
    setSaid(`Step ${at + 1} removed`);
  };
  return (
    <Stack gap="xs">
      <Text size="sm" fw={500} id="steps-label">
        Steps
      </Text>
      <ol ref={list} aria-labelledby="steps-label" style={{ listStyle: 'none', margin: 0, padding: 0, display: 'grid', gap: 8 }}>
        {steps.map((step, at) => (
          <Paper key={step.key} component="li" withBorder p="sm" data-step={step.key} aria-label={`Step ${at + 1}`}>
            <Group justify="space-between" mb={4} wrap="nowrap">
              <Text size="sm" c="dimmed">
                {ordered ? `Step ${at + 1}` : `Step ${at + 1}, in any order`}
              </Text>
              <Group gap={2} wrap="nowrap">
                {/* Not disabled at the ends: the focus would be lost as soon as a step gets there. */}
                <ActionIcon variant="subtle" color="gray" data-disabled={at === 0 || undefined} aria-disabled={at === 0} aria-label={`Move step ${at + 1} up`} onClick={() => move(at, at - 1)}>
                  <IconArrowUp size={16} aria-hidden />
                </ActionIcon>
                <ActionIcon variant="subtle" color="gray" data-disabled={at === steps.length - 1 || undefined} aria-disabled={at === steps.length - 1} aria-label={`Move step ${at + 1} down`} onClick={() => move(at, at + 1)}>
                  <IconArrowDown size={16} aria-hidden />
                </ActionIcon>
                <ActionIcon variant="subtle" color="gray" disabled={steps.length <= STEPS_MIN} aria-label={`Remove step ${at + 1}`} onClick={() => remove(at)}>
                  <IconX size={16} aria-hidden />
                </ActionIcon>
              </Group>
            </Group>
            <Group align="flex-start" gap="sm">
              <div style={{ flex: '3 1 300px' }}>
                <QueryFields label={`Query of step ${at + 1}`} query={step} onChange={(query) => replace(at, query)} />
              </div>
              <TextInput
                style={{ flex: '1 1 160px' }}
                label="Name"
                aria-label={`Name of step ${at + 1}`}
                placeholder={`step ${at + 1}`}
                value={step.name}
                error={problems[`step ${at} name`]}
                onChange={(event) => replace(at, { name: event.currentTarget.value })}
              />
            </Group>
          </Paper>
        ))}
      </ol>
      <Group gap="sm">
        <Button size="xs" variant="default" leftSection={<IconPlus size={14} aria-hidden />} disabled={steps.length >= STEPS_MAX} onClick={add}>
          Add step
        </Button>
        {steps.length >= STEPS_MAX && (
          <Text size="xs" c="dimmed">
            A sequence has at most {STEPS_MAX} steps.
          </Text>
        )}
      </Group>
      <VisuallyHidden role="status">{said}</VisuallyHidden>
    </Stack>
  );
}
