import { Alert, Anchor, Button, Code, Group, Text } from '@mantine/core';
import type { UnknownField } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Partial } from '../../components/Partial';
import classes from './Discover.module.css';
import type { Tail } from './use-tail';

interface Props {
  /** Invalid parameters of the URL. */
  problems: string[];
  failure: unknown;
  sourcesError: unknown;
  /** Whether the page shows a background run. */
  background: boolean;
  tail: Tail;
  /** Fields of the query that do not exist. */
  unknownFields: UnknownField[];
  /** Runs the query with a suggested field name. */
  onCorrect: (text: string) => void;
  onRetry: () => void;
  onAnew: () => void;
}

/** Messages about the page as a whole. */
export function Notices({ problems, failure, sourcesError, background, tail, unknownFields, onCorrect, onRetry, onAnew }: Props) {
  const format = useFormat();
  const failed = failure !== null && failure !== undefined;
  const gone = background && failure instanceof ApiError && (failure.status === 400 || failure.status === 404);
  const dropped = tail.dropped;
  if (problems.length === 0 && !failed && !sourcesError && !background && !tail.error && tail.failures.length === 0 && dropped === 0 && unknownFields.length === 0) return null;
  return (
    <div className={classes.notices}>
      {problems.length > 0 && (
        <Alert color="yellow" p="xs" role="alert" title="Some URL parameters are invalid and were ignored">
          {problems.join('; ')}
        </Alert>
      )}
      {unknownFields.map(({ field, suggestion, corrected }) => (
        <Text key={field} size="sm" role="status">
          No field <Code>{field}</Code>.
          {suggestion !== null && corrected !== null && (
            <>
              {' Did you mean '}
              <Anchor component="button" type="button" size="sm" ff="monospace" onClick={() => onCorrect(corrected)}>
                {suggestion}
              </Anchor>
              ?
            </>
          )}
        </Text>
      ))}
      {sourcesError !== null && <Failed compact title="Failed to load the sources; enter a source by name" error={sourcesError} />}
      {failed && <Failed compact title={gone ? 'Background search not found: it has expired or belongs to another user' : 'Request failed'} error={failure} retry={onRetry} />}
      {background && (
        <Group gap="sm" role="status">
          {!gone && <Text size="sm">This search runs in the background. You can close this page: its URL shows the results for 3 days.</Text>}
          <Button size="compact-xs" variant="default" onClick={onAnew}>
            Run again
          </Button>
        </Group>
      )}
      {tail.error ? <Failed compact title="Live tail disconnected; reconnecting" error={tail.error} /> : null}
      {tail.failures.length > 0 && <Partial title="Live tail: some shards are missing" failures={tail.failures} />}
      {dropped > 0 && (
        <Text size="sm" role="status">
          {format.number(dropped)} {dropped === 1 ? 'event' : 'events'} arrived too fast to be shown here. Refresh to see all.
        </Text>
      )}
    </div>
  );
}
