import { Badge, Button, Group, Paper, Stack, Text, Textarea, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { simulatePipeline } from '../../api/event-pipelines';
import { CopyBlock } from '../../components/CopyBlock';
import { Failed } from '../../components/Failed';

/** Shows what a pipeline makes of pasted records. Nothing is stored. */
export function Simulator({ id }: { id: string }) {
  const [text, setText] = useState('');
  const records = text.split('\n').filter((line) => line.trim() !== '');
  const { mutate, data, error, isPending } = useMutation({ mutationFn: () => simulatePipeline(id, records) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (records.length > 0) mutate();
  };
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Simulator
      </Title>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Textarea
            label="Records"
            description="One per line. Nothing is stored."
            autosize
            minRows={3}
            maxRows={12}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            styles={{ input: { fontFamily: 'monospace' } }}
          />
          <Group>
            <Button type="submit" size="xs" loading={isPending} disabled={records.length === 0}>
              Simulate
            </Button>
          </Group>
          {error && <Failed error={error} compact />}
          {data?.records.map((record, at) => (
            <div key={at}>
              <Group gap="xs" mb={4}>
                <Badge variant="light" color={record.error === undefined ? 'green' : 'red'}>
                  {record.index}
                </Badge>
                {record.error !== undefined && <Text size="sm">{record.error}</Text>}
              </Group>
              <CopyBlock label={`document ${at + 1}`} text={JSON.stringify(record.document, null, 2)} />
            </div>
          ))}
        </Stack>
      </form>
    </Paper>
  );
}
