import { Badge } from '@mantine/core';
import type { Pipeline } from '../../api/event-pipelines';

/** State of a pipeline in a word. */
export function stateOf({ definition, stats }: Pipeline): 'disabled' | 'starting' | 'failing' | 'running' | 'stopped' {
  if (definition.enabled === false) return 'disabled';
  if (!stats) return 'starting';
  if (stats.error !== null) return 'failing';
  return stats.running ? 'running' : 'stopped';
}

const COLOURS = { disabled: 'gray', starting: 'gray', failing: 'red', running: 'green', stopped: 'orange' };

export function State({ pipeline }: { pipeline: Pipeline }) {
  const state = stateOf(pipeline);
  return (
    <Badge variant="light" color={COLOURS[state]}>
      {state}
    </Badge>
  );
}
