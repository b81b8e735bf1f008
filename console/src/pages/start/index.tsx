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

/** Getting started: examples that send events, with the address and credentials of this server. */
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
    <PageFrame title="Send events" about="Any program that writes to Elasticsearch can write to firn. Send your first event in three steps.">
      <Stack maw={980} component="ol" className={classes.steps ?? ''}>
        <Step title={session.security ? 'Choose a destination and create a key' : 'Choose a destination'}>
          <TextInput
            label="Data stream or index"
            size="xs"
            w={300}
            maw="100%"
            value={stream}
            error={named ? undefined : 'Use lowercase letters, digits, - . _, starting with a letter or digit'}
            onChange={(event) => set('stream', event.currentTarget.value)}
          />
          <Text size="sm" c="dimmed">
            <code>firn ingest</code> creates a data stream with this name. With other programs, the first event creates an index, or a data stream if an index template defines one.
          </Text>
          {session.security ? (
            <SenderKey made={key !== null} onMade={setKey} />
          ) : (
            <Text size="sm" c="dimmed">
              Authentication is off; no credentials needed.
            </Text>
          )}
        </Step>
        <Step title="Run a command">
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
        <Step title="Check arrival">{named ? <Arrivals stream={stream} /> : <Text size="sm">Choose a destination first.</Text>}</Step>
      </Stack>
      <Text size="sm" c="dimmed" mt="md">
        No events yet? <Anchor component="span" size="sm" ff="monospace" c="inherit">firn demo</Anchor> starts a server with sample events of a fictional company.
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
