import { Alert, Button, Group, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { ApiError, errorText } from '../api/errors';

interface Props {
  error: unknown;
  /** Title of the error. */
  title?: string;
  retry?: () => void;
  compact?: boolean;
}

/** Error state of a view: the server's text unchanged, and a retry button. */
export function Failed({ error, title = 'Action failed', retry, compact = false }: Props) {
  const kind = error instanceof ApiError && error.type !== 'error' ? error.type : null;
  return (
    <Alert role="alert" color="red" title={title} icon={<IconAlertTriangle size={18} aria-hidden />} p={compact ? 'xs' : 'md'} maw={900} w="100%">
      <Text size="sm" dir="auto" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {errorText(error)}
      </Text>
      {(kind || retry) && (
        <Group mt="xs" gap="sm">
          {retry && (
            <Button size="xs" variant="default" onClick={retry}>
              Try again
            </Button>
          )}
          {kind && (
            <Text size="xs" c="dimmed" ff="monospace">
              {kind}
            </Text>
          )}
        </Group>
      )}
    </Alert>
  );
}
