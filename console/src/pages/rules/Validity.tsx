import { Group, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconAlertTriangle, IconCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { type RuleDefinition, validateRule } from '../../api/detection-rules';

const TYPING_MS = 400;

interface Props {
  /** Null if it is not complete yet. */
  definition: RuleDefinition | null;
  /** Labels of inputs to fill in. */
  missing: string[];
}

/** Whether the server would store the definition that is being typed, and why not. */
export function Validity({ definition, missing }: Props) {
  const [text] = useDebouncedValue(definition && JSON.stringify(definition), TYPING_MS);
  const { data } = useQuery({
    queryKey: ['rule-validation', text],
    queryFn: ({ signal }) => validateRule(JSON.parse(text ?? '') as RuleDefinition, signal),
    enabled: text !== null,
    staleTime: Infinity,
    // Saving tells the error of a server that does not answer.
    retry: false,
  });
  return (
    <div role="status" style={{ flex: '1 1 200px', minWidth: 0 }}>
      {missing.length > 0 && (
        <Text size="sm" c="dimmed">
          Fill in: {missing.join(', ')}
        </Text>
      )}
      {definition && data && text === JSON.stringify(definition) && (
        <Group gap={6} wrap="nowrap" align="flex-start">
          {data.valid ? <IconCheck size={16} color="var(--mantine-color-green-text)" aria-hidden style={{ flex: 'none', marginTop: 2 }} /> : <IconAlertTriangle size={16} color="var(--mantine-color-error)" aria-hidden style={{ flex: 'none', marginTop: 2 }} />}
          <Text size="sm" c={data.valid ? 'dimmed' : 'var(--mantine-color-error)'} style={{ overflowWrap: 'anywhere' }}>
            {data.valid ? 'The definition is valid.' : data.error}
          </Text>
        </Group>
      )}
    </div>
  );
}
