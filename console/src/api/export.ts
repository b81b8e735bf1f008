import type { Question } from './discover';
import { ApiError, type ErrorObject, errorFromObject, unreachable } from './errors';
import { send } from './request';

export type ExportFormat = 'csv' | 'ndjson';

/** Response of `_firn/discover/export` whose body is still arriving. */
export interface Export {
  filename: string;
  /** Number of events to come; null if the server does not send it. */
  total: number | null;
  body: ReadableStream<Uint8Array>;
}

/** Estimated cost of an export of frozen data. */
export interface ExportEstimate {
  requests: number;
  bytes: number;
  ms: number;
  splits: number;
}

/** Starts an export; `frozen` says what to do if much has to be fetched from snapshot repositories. */
export async function startExport(question: Question, format: ExportFormat, frozen: 'ask' | 'run', signal: AbortSignal): Promise<Export> {
  const response = await send('/_firn/discover/export', { body: { ...question, format, frozen }, signal, headers: { accept: '*/*' } });
  if (!response.body) throw unreachable('the response is empty');
  const total = Number.parseInt(response.headers.get('x-firn-total') ?? '', 10);
  const filename = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1];
  return { filename: filename ?? `events.${format}`, total: Number.isNaN(total) ? null : total, body: response.body };
}

/** Returns the estimate of an export that the server has not started; null if it was refused for another reason. */
export function estimateOf(error: unknown): ExportEstimate | null {
  if (!(error instanceof ApiError) || error.status !== 409) return null;
  const { estimate } = error.detail as ErrorObject & { estimate?: ExportEstimate };
  return estimate ?? null;
}

/** Prefix of the last CSV line of an incomplete export. */
const BROKE_OFF = '# the export broke off';

/** Returns the error in the last line of an incomplete export; null if the last line is an event. */
export function failureOf(end: string, format: ExportFormat): Error | null {
  const line = end.trimEnd().split('\n').at(-1) ?? '';
  if (format === 'csv') {
    const text = line.startsWith('"') ? line.replace(/^"|"$/g, '').replaceAll('""', '"') : line;
    return text.startsWith(BROKE_OFF) ? new Error(text.slice(2)) : null;
  }
  try {
    const { event, status, error } = JSON.parse(line) as { event?: string; status?: number; error?: ErrorObject };
    return event === 'failed' && typeof status === 'number' && error && typeof error === 'object' ? errorFromObject(error, status) : null;
  } catch {
    return null;
  }
}
