import { Box, Group, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface Props {
  title: string;
  /** One line on what the page is for. */
  about?: string;
  /** Buttons beside the title. */
  actions?: ReactNode;
  children: ReactNode;
}

/** Title, actions and margins, the same on every page but Discover. */
export function PageFrame({ title, about, actions, children }: Props) {
  return (
    <Box p="md" maw={1600} mx="auto">
      <Group justify="space-between" align="flex-start" mb="md">
        <div>
          <Title order={1} size="h3">
            {title}
          </Title>
          {about && (
            <Text size="sm" c="dimmed">
              {about}
            </Text>
          )}
        </div>
        <Group gap="xs">{actions}</Group>
      </Group>
      {children}
    </Box>
  );
}
