import { Badge } from '@mantine/core';

const COLOURS: Record<string, string> = { green: 'green', yellow: 'yellow', red: 'red' };

export function Health({ health }: { health: string }) {
  return (
    <Badge variant="light" color={COLOURS[health] ?? 'gray'}>
      {health}
    </Badge>
  );
}
