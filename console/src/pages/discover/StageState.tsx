import { Button, Group, Text } from '@mantine/core';
import { IconSnowflake } from '@tabler/icons-react';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Partial } from '../../components/Partial';
import type { Incomplete, Stage } from './run';

interface Props {
  /** What is being found, as in "Histogram". */
  name: string;
  stage: Stage<unknown>;
  onRetry: () => void;
  /** Runs it whatever it costs. */
  onGoOn?: () => void;
  onBackground?: () => void;
}

/** What is to be said of a stage beside its result: that it failed, is not whole, was cancelled, or what it would cost. */
export function StageState({ name, stage, onRetry, onGoOn, onBackground }: Props) {
  const format = useFormat();
  const { status, estimate, incomplete, error } = stage;
  if (status === 'failed') return <Failed compact title={`${name}: no answer`} error={error} retry={onRetry} />;
  if (status === 'cancelled') {
    return (
      <Group gap="sm" p="xs" role="status">
        <Text size="sm" c="dimmed">
          {name}: cancelled{stage.result ? (stage.stale ? ', the answer before is shown' : ', what was found until then is shown') : ''}
        </Text>
        <Button size="compact-xs" variant="default" onClick={onRetry}>
          Ask again
        </Button>
      </Group>
    );
  }
  if (status === 'estimate' && estimate) {
    return (
      <Group gap="sm" p="xs" role="status">
        <IconSnowflake size={18} color="var(--mantine-color-anchor)" aria-hidden />
        <Text size="sm">
          {name}: part of this is frozen. To read it takes about <b>{format.duration(estimate.ms)}</b>, {format.number(estimate.requests)} requests and{' '}
          {format.bytes(estimate.bytes)}.
        </Text>
        {onGoOn && (
          <Button size="compact-xs" onClick={onGoOn}>
            Go on
          </Button>
        )}
        {onBackground && (
          <Button size="compact-xs" variant="default" onClick={onBackground}>
            In the background
          </Button>
        )}
      </Group>
    );
  }
  return <LeftOut name={name} incomplete={incomplete} />;
}

/** That an answer is not about all shards, if it is not. */
export function LeftOut({ name, incomplete }: { name: string; incomplete: Incomplete | null }) {
  const format = useFormat();
  if (!incomplete) return null;
  const missing = incomplete.failed > 0 ? `leaves out ${format.number(incomplete.failed)} of ${format.number(incomplete.total)} shards` : 'ran out of time: it is not about all events';
  return <Partial title={`${name} ${missing}`} failures={incomplete.failures} />;
}
