import { Button, Group, JsonInput, Paper, Stack, Text, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { putRule, type RuleDefinition } from '../../api/detection-rules';
import { Failed } from '../../components/Failed';

/** The definition of a rule whose type the form does not have, as JSON. */
export function RuleJson({ id, stored, onSaved }: { id: string; stored: RuleDefinition; onSaved: (changed: RuleDefinition) => void }) {
  const [text, setText] = useState(() => JSON.stringify(stored, null, 2));
  const { mutate, isPending, error } = useMutation({
    mutationFn: async () => {
      const definition = JSON.parse(text) as RuleDefinition;
      await putRule(id, definition);
      return definition;
    },
    onSuccess: onSaved,
  });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <div>
          <Title order={2} size="h5">
            Definition
          </Title>
          <Text size="sm" c="dimmed">
            Rules of type {stored.type} are edited as JSON.
          </Text>
        </div>
        <JsonInput aria-label="Definition" autosize minRows={12} maxRows={40} validationError="Not valid JSON" value={text} onChange={setText} />
        <Group>
          <Button size="sm" loading={isPending} onClick={() => mutate()}>
            Save rule
          </Button>
        </Group>
        {error && <Failed title="Rule not saved" error={error} compact />}
      </Stack>
    </Paper>
  );
}
