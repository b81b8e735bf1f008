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

/** Mark of an alert that a maintenance window keeps from being delivered. */
export function MaintenanceBadge() {
  return (
    <Badge variant="light" color="grape" tt="none" title="Raised in a maintenance window: not delivered">
      maintenance
    </Badge>
  );
}
