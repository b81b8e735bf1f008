import { Badge } from '@mantine/core';
import type { AlertStatus } from '../../api/alerts';

const COLORS: Record<AlertStatus, string> = { open: 'red', acknowledged: 'blue', closed: 'gray' };

export function StatusBadge({ status }: { status: AlertStatus }) {
  return (
    <Badge variant="light" color={COLORS[status]} tt="none">
      {status}
    </Badge>
  );
}
