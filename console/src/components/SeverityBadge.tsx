import { Badge } from '@mantine/core';
import type { Severity } from '../api/alerts';

const COLORS: Record<Severity, string> = { critical: 'red', high: 'orange', medium: 'yellow', low: 'teal', informational: 'gray' };

/** Severity of a rule or an alert. */
export function SeverityBadge({ severity }: { severity: Severity }) {
  return (
    <Badge variant="light" color={COLORS[severity]} tt="none">
      {severity}
    </Badge>
  );
}
