import type { Question } from './discover';
import { ApiError, type ErrorObject, errorFromObject, unreachable } from './errors';
import { send } from './request';

export type ExportFormat = 'csv' | 'ndjson';

/** An answer of `_firn/discover/export` on its way. */
export interface Export {
  filename: string;
  /** Events to come; null if the server does not say. */
  total: number | null;
  body: ReadableStream<Uint8Array>;
}

/** What an export of frozen data would fetch, about. */
export interface ExportEstimate {
  requests: number;
  bytes: number;
  ms: number;
  splits: number;
}

/** Begins an export; `frozen` says what to do if much of it has to be fetched from snapshot repositories. */
export async function startExport(question: Question, format: ExportFormat, frozen: 'ask' | 'run', signal: AbortSignal): Promise<Export> {
  const response = await send('/_firn/discover/export', { body: { ...question, format, frozen }, signal, headers: { accept: '*/*' } });
  if (!response.body) throw unreachable('the answer is empty');
  const total = Number.parseInt(response.headers.get('x-firn-total') ?? '', 10);
  const filename = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1];
  return { filename: filename ?? `events.${format}`, total: Number.isNaN(total) ? null : total, body: response.body };
}

/** What an export that was not begun would fetch; null if it was refused for anything else. */
export function estimateOf(error: unknown): ExportEstimate | null {
  if (!(error instanceof ApiError) || error.status !== 409) return null;
  const { estimate } = error.detail as ErrorObject & { estimate?: ExportEstimate };
  return estimate ?? null;
}

/** What a table's last line begins with if events are missing after it. */
const BROKE_OFF = '# the export broke off';

/** Why an export ended before its end, as the last line of what came of it says; null if that is an event. */
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
