import { Center, Group, Loader, Text } from '@mantine/core';

/** Loading state of a view. */
export function Loading({ label = 'Loading' }: { label?: string }) {
  return (
    <Center p="lg" role="status">
      <Group gap="sm">
        <Loader size="sm" />
        <Text size="sm" c="dimmed">
          {label}…
        </Text>
      </Group>
    </Center>
  );
}
