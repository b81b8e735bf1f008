import { Stack, Text } from '@mantine/core';
import { IconMoodEmpty } from '@tabler/icons-react';
import type { ReactNode } from 'react';

interface Props {
  title: string;
  /** What the user can do about it. */
  children?: ReactNode;
}

/** Empty state of a view. */
export function Empty({ title, children }: Props) {
  return (
    <Stack align="center" gap="xs" p="xl" ta="center">
      <IconMoodEmpty size={32} stroke={1.4} color="var(--mantine-color-dimmed)" aria-hidden />
      <Text fw={600}>{title}</Text>
      {children && (
        <Text component="div" size="sm" c="dimmed" maw={560}>
          {children}
        </Text>
      )}
    </Stack>
  );
}
