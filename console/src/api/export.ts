import type { Question } from './discover';
import { unreachable } from './errors';
import { send } from './request';

export type ExportFormat = 'csv' | 'ndjson';

/** An answer of `_firn/discover/export` on its way. */
export interface Export {
  filename: string;
  /** Events to come; null if the server does not say. */
  total: number | null;
  body: ReadableStream<Uint8Array>;
}

export async function startExport(question: Question, format: ExportFormat, signal: AbortSignal): Promise<Export> {
  const response = await send('/_firn/discover/export', { body: { ...question, format }, signal, headers: { accept: '*/*' } });
  if (!response.body) throw unreachable('the answer is empty');
  const total = Number.parseInt(response.headers.get('x-firn-total') ?? '', 10);
  const filename = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1];
  return { filename: filename ?? `events.${format}`, total: Number.isNaN(total) ? null : total, body: response.body };
}
