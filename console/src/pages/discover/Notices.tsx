import { Alert, Anchor, Button, Code, Group, Text } from '@mantine/core';
import type { UnknownField } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Partial } from '../../components/Partial';
import classes from './Discover.module.css';
import type { Tail } from './use-tail';

interface Props {
  /** What of the address could not be read. */
  problems: string[];
  failure: unknown;
  sourcesError: unknown;
  /** Whether the answer is one of the background. */
  background: boolean;
  tail: Tail;
  /** Fields of the query that do not exist. */
  unknownFields: UnknownField[];
  /** Runs the query with another field in the place of one that does not exist. */
  onCorrect: (text: string) => void;
  onRetry: () => void;
  onAnew: () => void;
}

/** What is to be said of the page as a whole. */
export function Notices({ problems, failure, sourcesError, background, tail, unknownFields, onCorrect, onRetry, onAnew }: Props) {
  const format = useFormat();
  const failed = failure !== null && failure !== undefined;
  const gone = background && failure instanceof ApiError && (failure.status === 400 || failure.status === 404);
  const dropped = tail.dropped;
  if (problems.length === 0 && !failed && !sourcesError && !background && !tail.error && tail.failures.length === 0 && dropped === 0 && unknownFields.length === 0) return null;
  return (
    <div className={classes.notices}>
      {problems.length > 0 && (
        <Alert color="yellow" p="xs" role="alert" title="Part of this address cannot be read, and is left out">
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
      {sourcesError !== null && <Failed compact title="Sources are not known: pick one by its name" error={sourcesError} />}
      {failed && <Failed compact title={gone ? 'The answer made in the background is no longer there, or not yours' : 'No answer'} error={failure} retry={onRetry} />}
      {background && (
        <Group gap="sm" role="status">
          {!gone && <Text size="sm">This answer is made in the background. It goes on without this page; its address leads back to it for three days.</Text>}
          <Button size="compact-xs" variant="default" onClick={onAnew}>
            Ask anew instead
          </Button>
        </Group>
      )}
      {tail.error ? <Failed compact title="The live tail is broken off, and is tried again" error={tail.error} /> : null}
      {tail.failures.length > 0 && <Partial title="The live tail leaves out some shards" failures={tail.failures} />}
      {dropped > 0 && (
        <Text size="sm" role="status">
          {format.number(dropped)} events came too fast to be shown here. Ask again to see them.
        </Text>
      )}
    </div>
  );
}
