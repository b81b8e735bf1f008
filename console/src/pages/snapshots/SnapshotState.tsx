import { Badge } from '@mantine/core';

const LOOKS: Record<string, { color: string; text: string }> = {
  SUCCESS: { color: 'green', text: 'Complete' },
  PARTIAL: { color: 'yellow', text: 'Partial' },
  FAILED: { color: 'red', text: 'Failed' },
  IN_PROGRESS: { color: 'blue', text: 'In progress' },
};

export function SnapshotState({ state }: { state: string }) {
  const { color, text } = LOOKS[state] ?? { color: 'gray', text: state.toLowerCase() };
  return (
    <Badge variant="light" color={color} tt="none">
      {text}
    </Badge>
  );
}
