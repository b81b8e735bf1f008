import { request } from './request';
import type { SearchResponse } from './search';

/** Definition of an event pipeline, as it was stored. */
export interface Definition {
  description?: string;
  enabled?: boolean;
  source: { type: string };
  pack?: string | null;
  index: string;
  tenant?: string | null;
  dead_letter_index?: string;
}

/** Events by outcome: read = indexed + filtered + dead_lettered + refused + in_flight. */
export interface EventCounts {
  read: number;
  read_bytes: number;
  indexed: number;
  filtered: number;
  dead_lettered: number;
  refused: number;
  in_flight: number;
}

export interface PartitionStats {
  partition: string;
  resume_offset: number;
  complete_offset: number | null;
  read: number;
  indexed: number;
  filtered: number;
  dead_lettered: number;
}

/** Enrichment table in use. */
export interface TableStats {
  name: string;
  version: string;
  /** Since it was last known to be current. */
  age_in_millis: number;
  /** Why it could not be read again. */
  error: string | null;
}

/** Windows of the aggregates. */
export interface WindowStats {
  open: number;
  keys: number;
  /** Events that closed windows have become. */
  events: number;
  late_events: number;
  overflowed_events: number;
  rejected: number;
  watermark_in_millis: number | null;
  error: string | null;
}

/** `GET /_firn/pipelines/{id}/stats`. */
export interface PipelineStats {
  running: boolean;
  error: string | null;
  since_start: EventCounts;
  /** Counters of the source, by name, and why a part of it (a file) cannot be read now. */
  source: Record<string, number | string>;
  steps: { map_time_in_millis: number; write_time_in_millis: number; write_retries: number };
  tables: TableStats[];
  /** Null: the pipeline has no aggregates. */
  windows: WindowStats | null;
  partitions: PartitionStats[];
}

/** Returns the counters of a source, by name. */
export const sourceCounters = (stats: PipelineStats) => Object.entries(stats.source).filter((entry): entry is [string, number] => typeof entry[1] === 'number');

/** Returns why a part of the source cannot be read now; null: all of it can. */
export const sourceError = ({ source: { last_error: error } }: PipelineStats) => (typeof error === 'string' ? error : null);

export interface Pipeline {
  id: string;
  definition: Definition;
  /** Undefined: the server has not started it yet. */
  stats: PipelineStats | undefined;
}

/** Record that a simulation mapped. */
export interface SimulatedRecord {
  index: string;
  document: Record<string, unknown>;
  error?: string;
}

/** Record that could not be parsed or indexed. */
export interface DeadLetter {
  '@timestamp': string;
  event?: { original?: string };
  error?: { message?: string };
  firn?: { dead_letter?: { step?: string; partition?: string; offset?: number } };
}

const DEAD_LETTERS_SHOWN = 50;

const pathOf = (id: string) => `/_firn/pipelines/${encodeURIComponent(id)}`;

/** Lists all pipelines with their state, by id. */
export const listPipelines = async (signal?: AbortSignal): Promise<Pipeline[]> => {
  const options = signal ? { signal } : {};
  const [definitions, { pipelines }] = await Promise.all([
    request<Record<string, Definition>>('/_firn/pipelines', options),
    request<{ pipelines: Record<string, PipelineStats> }>('/_firn/pipelines/_stats', options),
  ]);
  return Object.entries(definitions).map(([id, definition]) => ({ id, definition, stats: pipelines[id] }));
};

export const deletePipeline = (id: string) => request<unknown>(pathOf(id), { method: 'DELETE' });

/** Shows what the steps of a pipeline make of records. Nothing is stored. */
export const simulatePipeline = (id: string, records: string[]) =>
  request<{ records: SimulatedRecord[] }>(`${pathOf(id)}/_simulate`, { method: 'POST', body: { records } });

/** A field, and how many events have it. */
export interface FieldCount {
  field: string;
  events: number;
}

/** Fields of the events of the last day. */
export interface Coverage {
  events: number;
  mapped: FieldCount[];
  /** Under the prefix of the pack. */
  unmapped: FieldCount[];
  /** Raw fields whose values have not the type of their target. */
  errors: FieldCount[];
  not_counted: number;
}

export const mappingCoverage = (id: string, signal?: AbortSignal) => request<Coverage>(`${pathOf(id)}/_coverage`, signal ? { signal } : {});

/** What a replay did to dead letters. */
export interface Replay {
  total: number;
  replayed: number;
  /** Could still not be parsed or indexed. */
  failed: number;
  not_tried: number;
}

/** Puts the records of dead letters through the steps of their pipeline again, the oldest first. Letters whose event is stored then are removed. */
export const replayDeadLetters = (id: string) => request<Replay>(`${pathOf(id)}/_replay`, { method: 'POST', body: {} });

/** Returns the newest dead letters of a pipeline, and how many there are. */
export const listDeadLetters = async (id: string, index: string, signal?: AbortSignal) => {
  const response = await request<SearchResponse<DeadLetter>>(`/${encodeURIComponent(index)}/_search`, {
    method: 'POST',
    query: { ignore_unavailable: true },
    body: { size: DEAD_LETTERS_SHOWN, sort: [{ '@timestamp': { order: 'desc', unmapped_type: 'date' } }], query: { term: { 'firn.dead_letter.pipeline': id } }, track_total_hits: true },
    ...(signal && { signal }),
  });
  return { total: response.hits.total?.value ?? 0, letters: response.hits.hits };
};
