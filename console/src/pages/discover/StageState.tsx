import { Button, Group, Text } from '@mantine/core';
import { IconSnowflake } from '@tabler/icons-react';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Partial } from '../../components/Partial';
import type { Incomplete, Stage } from './run';

interface Props {
  /** Name of the stage, such as "Histogram". */
  name: string;
  stage: Stage<unknown>;
  onRetry: () => void;
  /** Runs the stage regardless of its cost. */
  onGoOn?: () => void;
  onBackground?: () => void;
}

/** State of a stage next to its result: failed, partial, cancelled, or its estimated cost. */
export function StageState({ name, stage, onRetry, onGoOn, onBackground }: Props) {
  const format = useFormat();
  const { status, estimate, incomplete, error } = stage;
  if (status === 'failed') return <Failed compact title={`${name}: request failed`} error={error} retry={onRetry} />;
  if (status === 'cancelled') {
    return (
      <Group gap="sm" p="xs" role="status">
        <Text size="sm" c="dimmed">
          {name}: cancelled{stage.result ? (stage.stale ? '; showing previous results' : '; showing partial results') : ''}
        </Text>
        <Button size="compact-xs" variant="default" onClick={onRetry}>
          Refresh
        </Button>
      </Group>
    );
  }
  if (status === 'estimate' && estimate) {
    return (
      <Group gap="sm" p="xs" role="status">
        <IconSnowflake size={18} color="var(--mantine-color-anchor)" aria-hidden />
        <Text size="sm">
          {name}: part of this data is frozen. Reading it takes about <b>{format.duration(estimate.ms)}</b>, {format.number(estimate.requests)} requests and{' '}
          {format.bytes(estimate.bytes)}.
        </Text>
        {onGoOn && (
          <Button size="compact-xs" onClick={onGoOn}>
            Run anyway
          </Button>
        )}
        {onBackground && (
          <Button size="compact-xs" variant="default" onClick={onBackground}>
            Run in background
          </Button>
        )}
      </Group>
    );
  }
  return <LeftOut name={name} incomplete={incomplete} />;
}

/** Warning about a partial response; nothing for a complete one. */
export function LeftOut({ name, incomplete }: { name: string; incomplete: Incomplete | null }) {
  const format = useFormat();
  if (!incomplete) return null;
  const missing = incomplete.failed > 0 ? `${format.number(incomplete.failed)} of ${format.number(incomplete.total)} shards failed` : 'timed out; results are partial';
  return <Partial title={`${name}: ${missing}`} failures={incomplete.failures} />;
}
