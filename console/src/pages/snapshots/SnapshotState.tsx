import { Badge } from '@mantine/core';

const LOOKS: Record<string, { color: string; text: string }> = {
  SUCCESS: { color: 'green', text: 'whole' },
  PARTIAL: { color: 'yellow', text: 'partial' },
  FAILED: { color: 'red', text: 'failed' },
  IN_PROGRESS: { color: 'blue', text: 'being taken' },
};

export function SnapshotState({ state }: { state: string }) {
  const { color, text } = LOOKS[state] ?? { color: 'gray', text: state.toLowerCase() };
  return (
    <Badge variant="light" color={color} tt="none">
      {text}
    </Badge>
  );
}
