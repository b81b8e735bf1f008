import { Button, Group, Progress, SegmentedControl, Stack, Text } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import type { Question } from '../../api/discover';
import { type ExportEstimate, type ExportFormat, estimateOf, failureOf, startExport } from '../../api/export';
import { useFormat } from '../../app/preferences';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import { RecordCounter } from '../../lib/record-counter';
import { saveFile } from '../../lib/save-file';

/** Minimum time between progress updates. */
const DRAW_EVERY_MS = 100;
/** Chunks are handed to the browser as blobs of this size: it stores on disk what does not fit into memory. */
const BLOB_BYTES = 8 << 20;
/** Maximum length of the last line of a failed export. */
const END_BYTES = 64 << 10;

interface Progressed {
  records: number;
  bytes: number;
  total: number | null;
}

type State = { at: 'choice' } | { at: 'estimate'; estimate: ExportEstimate } | { at: 'running' | 'done'; progress: Progressed } | { at: 'failed'; error: unknown } | { at: 'cancelled' };

interface Props {
  question: Question;
  columns: string[];
  total: number | null;
  onClose: () => void;
}

/** Dialog that exports all matching events to a file. It saves only complete files. */
export default function ExportDialog({ question, columns, total, onClose }: Props) {
  const format = useFormat();
  const [as, setAs] = useState<ExportFormat>('csv');
  const [state, setState] = useState<State>({ at: 'choice' });
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  const start = async (frozen: 'ask' | 'run') => {
    const controller = new AbortController();
    abort.current = controller;
    setState({ at: 'running', progress: { records: 0, bytes: 0, total } });
    try {
      const { filename, file, progress } = await receive(question, as, frozen, controller.signal, (progress) => setState({ at: 'running', progress }));
      saveFile(file, filename);
      setState({ at: 'done', progress });
    } catch (error) {
      const estimate = estimateOf(error);
      if (controller.signal.aborted) setState({ at: 'cancelled' });
      else setState(estimate ? { at: 'estimate', estimate } : { at: 'failed', error });
    }
  };
  const running = state.at === 'running';
  return (
    <Dialog onClose={onClose} title="Export events" closeOnClickOutside={!running} centered>
      <Stack gap="sm">
        <SegmentedControl
          aria-label="Format"
          disabled={running}
          value={as}
          onChange={(value) => {
            setAs(value as ExportFormat);
            // Another format needs another export.
            setState({ at: 'choice' });
          }}
          data={[
            { value: 'csv', label: 'CSV' },
            { value: 'ndjson', label: 'NDJSON' },
          ]}
        />
        <Text size="sm">
          {total === null ? 'All matching events' : `All ${format.number(total)} matching events`}, sorted as in the table.{' '}
          {as === 'ndjson' ? 'One event per line, as it was sent.' : columns.length > 0 ? `Columns: ${columns.join(', ')}.` : 'One column for each field in use.'}
        </Text>
        {(state.at === 'running' || state.at === 'done') && <ProgressOf progress={state.progress} done={state.at === 'done'} />}
        {state.at === 'estimate' && (
          <Text size="sm" role="status">
            Part of this data is frozen. Reading it takes about <b>{format.duration(state.estimate.ms)}</b>, {format.number(state.estimate.requests)} requests and {format.bytes(state.estimate.bytes)}.
          </Text>
        )}
        {state.at === 'cancelled' && (
          <Text size="sm" c="dimmed" role="status">
            Cancelled. No file was saved.
          </Text>
        )}
        {state.at === 'failed' && <Failed compact title="Export failed; no file was saved" error={state.error} />}
        <Group justify="flex-end">
          {/* Each button takes over the focus of the one that it replaces. */}
          {running ? (
            <Button variant="default" autoFocus onClick={() => abort.current?.abort()}>
              Cancel
            </Button>
          ) : (
            <>
              <Button variant="default" autoFocus={state.at === 'done'} onClick={onClose}>
                Close
              </Button>
              <Button data-autofocus autoFocus={state.at !== 'choice' && state.at !== 'done'} onClick={() => void start(state.at === 'estimate' ? 'run' : 'ask')}>
                {label(state.at)}
              </Button>
            </>
          )}
        </Group>
      </Stack>
    </Dialog>
  );
}

function label(at: State['at']): string {
  if (at === 'choice') return 'Export';
  return at === 'estimate' ? 'Run anyway' : 'Export again';
}

function ProgressOf({ progress: { records, bytes, total }, done }: { progress: Progressed; done: boolean }) {
  const format = useFormat();
  const percent = done ? 100 : total ? Math.min(100, (records * 100) / total) : 0;
  const of = total === null ? '' : ` of ${format.number(total)}`;
  return (
    <div>
      <Progress value={percent} aria-label="Export progress" animated={!done} />
      <Text size="xs" c="dimmed" mt={4} role="status">
        {done ? 'Done: ' : ''}
        {format.number(records)}
        {of} events, {format.bytes(bytes)}
      </Text>
    </div>
  );
}

/** Reads an export to its end. A lost connection is an error, never a shorter file. */
async function receive(question: Question, as: ExportFormat, frozen: 'ask' | 'run', signal: AbortSignal, tell: (progress: Progressed) => void) {
  const { filename, total, body } = await startExport(question, as, frozen, signal);
  const counter = new RecordCounter(as);
  const blobs: Blob[] = [];
  let pieces: Uint8Array<ArrayBuffer>[] = [];
  let pending = 0;
  let drawn = 0;
  let end = new Uint8Array();
  const reader = (body as ReadableStream<Uint8Array<ArrayBuffer>>).getReader();
  /** Prefers the server's reason, if it arrived, to the fact that the export ended. */
  const broken = (what: string) => failureOf(new TextDecoder().decode(end), as) ?? new Error(`${what} after ${counter.records}${total === null ? '' : ` of ${total}`} events`);
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw signal.aborted ? error : broken('connection lost');
    });
    if (done) break;
    counter.add(value);
    pieces.push(value);
    end = endOf(end, value);
    pending += value.length;
    if (pending >= BLOB_BYTES) {
      blobs.push(new Blob(pieces));
      pieces = [];
      pending = 0;
    }
    if (performance.now() - drawn > DRAW_EVERY_MS) {
      drawn = performance.now();
      tell({ records: counter.records, bytes: counter.bytes, total });
    }
  }
  if (total !== null && counter.records !== total) throw broken('the response ended early');
  const type = as === 'csv' ? 'text/csv' : 'application/x-ndjson';
  return { filename, file: new Blob([...blobs, ...pieces], { type }), progress: { records: counter.records, bytes: counter.bytes, total } };
}

/** Returns the last bytes received. */
function endOf(before: Uint8Array, piece: Uint8Array): Uint8Array<ArrayBuffer> {
  if (piece.length >= END_BYTES) return piece.slice(-END_BYTES);
  const kept = before.slice(-(END_BYTES - piece.length));
  const end = new Uint8Array(kept.length + piece.length);
  end.set(kept);
  end.set(piece, kept.length);
  return end;
}
