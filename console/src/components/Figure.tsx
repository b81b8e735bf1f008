import { Paper, Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** Single metric with its label. */
export function Figure({ label, value, detail }: { label: string; value: ReactNode; detail?: ReactNode }) {
  return (
    <Paper withBorder p="sm" miw={140} bg="var(--firn-surface)">
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text fw={650} size="lg" component="div">
        {value}
      </Text>
      {detail && (
        <Text size="xs" c="dimmed" component="div">
          {detail}
        </Text>
      )}
    </Paper>
  );
}
