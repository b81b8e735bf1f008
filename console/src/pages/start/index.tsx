import { Anchor, Paper, Stack, Tabs, Text, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { useSearchParams } from 'react-router';
import { useSession } from '../../app/session-context';
import { CopyBlock } from '../../components/CopyBlock';
import { PageFrame } from '../../components/PageFrame';
import { Arrivals } from './Arrivals';
import { SenderKey } from './SenderKey';
import { isStreamName, SHIPPERS } from './shippers';
import classes from './start.module.css';

const DEFAULT_STREAM = 'logs';

/** The first visit: how to send events, with the address and credentials of this very server. */
export default function Start() {
  const { session } = useSession();
  const [params, setParams] = useSearchParams();
  const [key, setKey] = useState<string | null>(null);
  const shipper = params.get('with') ?? 'curl';
  const stream = params.get('stream') ?? DEFAULT_STREAM;
  const set = (name: string, value: string) => setParams((before) => new URLSearchParams([...[...before].filter(([other]) => other !== name), [name, value]]), { replace: true });
  const named = isStreamName(stream);
  const target = { origin: window.location.origin, stream: named ? stream : DEFAULT_STREAM, key: session.security ? (key ?? 'YOUR_API_KEY') : null };
  return (
    <PageFrame title="Send events" about="Any program that writes to Elasticsearch writes to firn. Three steps to the first event.">
      <Stack maw={980} component="ol" className={classes.steps ?? ''}>
        <Step title={session.security ? 'Name where they go, and make a key' : 'Name where they go'}>
          <TextInput
            label="Data stream or index"
            size="xs"
            w={300}
            maw="100%"
            value={stream}
            error={named ? undefined : 'Lower case letters, digits, - . _, beginning with a letter or digit'}
            onChange={(event) => set('stream', event.currentTarget.value)}
          />
          <Text size="sm" c="dimmed">
            <code>firn ingest</code> makes a data stream of this name. For everything else the first event makes an index, or a data stream if an index template says so.
          </Text>
          {session.security ? (
            <SenderKey made={key !== null} onMade={setKey} />
          ) : (
            <Text size="sm" c="dimmed">
              This server asks nobody who comes, so no credentials are needed.
            </Text>
          )}
        </Step>
        <Step title="Copy, and run">
          <Tabs value={shipper} onChange={(next) => set('with', next ?? 'curl')} keepMounted={false}>
            <Tabs.List mb="sm">
              {SHIPPERS.map(({ id, label }) => (
                <Tabs.Tab key={id} value={id}>
                  {label}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            {SHIPPERS.map(({ id, label, where, text }) => (
              <Tabs.Panel key={id} value={id}>
                <Text size="sm" mb="xs">
                  {where}
                </Text>
                <CopyBlock label={`${label} block`} text={text(target)} />
              </Tabs.Panel>
            ))}
          </Tabs>
        </Step>
        <Step title="Look at them">{named ? <Arrivals stream={stream} /> : <Text size="sm">Name where they go first.</Text>}</Step>
      </Stack>
      <Text size="sm" c="dimmed" mt="md">
        No events at hand? <Anchor component="span" size="sm" ff="monospace" c="inherit">firn demo</Anchor> starts a server with those of an invented company.
      </Text>
    </PageFrame>
  );
}

function Step({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Paper component="li" withBorder p="md" bg="var(--firn-surface)">
      <Text fw={650} mb="sm" className={classes.title ?? ''}>
        {title}
      </Text>
      <Stack gap="sm">{children}</Stack>
    </Paper>
  );
}
