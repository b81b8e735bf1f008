import { Alert, Button, Group, List, NumberInput, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useRef, useState } from 'react';
import { type Analysis, analyzeRepository } from '../../api/repositories';
import { isAbort } from '../../api/errors';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Figure } from '../../components/Figure';
import { Loading } from '../../components/Loading';
import { LatencyChart } from './LatencyChart';
import { latencyRows } from './latencies';

/** Runs a repository analysis and shows its report. */
export function AnalyzeRepository({ name }: { name: string }) {
  const [blobs, setBlobs] = useState<number | string>(100);
  const [concurrency, setConcurrency] = useState<number | string>(10);
  const [maxBlob, setMaxBlob] = useState('10mb');
  const [maxTotal, setMaxTotal] = useState('1gb');
  const running = useRef<AbortController | null>(null);
  const { mutate, data, error, isPending } = useMutation({
    mutationFn: () => {
      running.current = new AbortController();
      const options = { blob_count: Number(blobs), concurrency: Number(concurrency), max_blob_size: maxBlob.trim(), max_total_data_size: maxTotal.trim() };
      return analyzeRepository(name, options, running.current.signal);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    mutate();
  };
  return (
    <Stack>
      <Paper component="form" withBorder p="sm" bg="var(--firn-surface)" onSubmit={submit}>
        <Text size="sm" mb="xs" maw={820}>
          Writes objects of many sizes, reads them as a whole and in ranges, overwrites some during reads, runs concurrent writes to one object, lists, and deletes everything at the end.
        </Text>
        <Group align="flex-end" gap="sm">
          <NumberInput label="Objects" size="xs" w={110} min={1} max={100_000} value={blobs} onChange={setBlobs} />
          <TextInput label="Largest object" size="xs" w={110} value={maxBlob} onChange={(event) => setMaxBlob(event.currentTarget.value)} />
          <TextInput label="Maximum total" size="xs" w={130} value={maxTotal} onChange={(event) => setMaxTotal(event.currentTarget.value)} />
          <NumberInput label="Concurrency" size="xs" w={110} min={1} max={1000} value={concurrency} onChange={setConcurrency} />
          <Button type="submit" size="xs" loading={isPending}>
            Analyze
          </Button>
          {isPending && (
            <Button size="xs" variant="default" onClick={() => running.current?.abort()}>
              Stop
            </Button>
          )}
        </Group>
      </Paper>
      {isPending && <Loading label="Analyzing the repository" />}
      {error && !isAbort(error) && <Failed title="Analysis failed" error={error} />}
      {data && !isPending && <Report analysis={data} />}
    </Stack>
  );
}

function Report({ analysis }: { analysis: Analysis }) {
  const format = useFormat();
  const { issues_detected: issues, notes, summary } = analysis;
  const rows = latencyRows(analysis);
  const throughput = ({ total_size_bytes: bytes, total_elapsed_nanos: nanos }: { total_size_bytes: number; total_elapsed_nanos: number }) =>
    nanos > 0 ? `${format.bytes(bytes / (nanos / 1e9))}/s per request` : undefined;
  return (
    <Stack role="region" aria-label="Analysis report">
      {issues.length === 0 ? (
        <Alert color="green" p="xs" icon={<IconCircleCheck size={18} aria-hidden />} title="Storage passed all consistency checks" />
      ) : (
        <Alert color="red" role="alert" icon={<IconAlertTriangle size={18} aria-hidden />} title="Storage failed consistency checks: snapshots are not safe in it">
          <List size="sm">
            {issues.map((issue) => (
              <List.Item key={issue}>{issue}</List.Item>
            ))}
          </List>
        </Alert>
      )}
      <Group gap="sm" align="stretch">
        <Figure label="Took" value={format.duration(analysis.elapsed_nanos / 1e6)} detail={`${format.number(analysis.blob_count)} objects, concurrency ${format.number(analysis.concurrency)}`} />
        {Object.entries(summary).map(([kind, part]) => (
          <Figure key={kind} label={kind === 'write' ? 'Written' : 'Read'} value={format.bytes(part.total_size_bytes)} detail={throughput(part)} />
        ))}
      </Group>
      <Paper withBorder p="sm" bg="var(--firn-surface)">
        <Title order={2} size="h5" mb="xs">
          Request latency
        </Title>
        <LatencyChart rows={rows} />
      </Paper>
      {notes.length > 0 && (
        <Paper withBorder p="sm" bg="var(--firn-surface)">
          <Title order={2} size="h5" mb="xs">
            Unusual but harmless
          </Title>
          <List size="sm">
            {notes.map((note) => (
              <List.Item key={note}>{note}</List.Item>
            ))}
          </List>
        </Paper>
      )}
    </Stack>
  );
}
