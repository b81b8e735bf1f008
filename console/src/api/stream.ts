import { parseJson } from '../lib/json';
import { isAbort, unreachable } from './errors';
import { type RequestOptions, send } from './request';

/** Maximum size of one stream event. A page of 1,000 events of 1 MB does not fit, and should not. */
const EVENT_CHARS_MAX = 256 * 1024 * 1024;

/** Yields the `data` of server-sent events. Comments, ids and event names are ignored: `data` repeats them. */
export async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  // Chunks of the incomplete line, joined once, so that the cost of a long line stays linear.
  let open: string[] = [];
  let openChars = 0;
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      let start = 0;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
        open.push(text.slice(start, end));
        const line = open.join('').replace(/\r$/, '');
        open = [];
        openChars = 0;
        start = end + 1;
        if (line.startsWith('data:')) data.push(line.startsWith('data: ') ? line.slice(6) : line.slice(5));
        else if (line === '' && data.length > 0) {
          const whole = data.join('\n');
          data = [];
          yield whole;
        }
      }
      if (start < text.length) {
        open.push(text.slice(start));
        openChars += text.length - start;
        if (openChars > EVENT_CHARS_MAX) throw new Error('an event in the stream is too long');
      }
      if (done) return;
    }
  } finally {
    // Closes the connection when the consumer stops, so that the server stops too.
    await reader.cancel().catch(() => {});
  }
}

/** Sends a request with a streamed response and yields its objects as they arrive. */
export async function* stream<Event>(path: string, options: RequestOptions): AsyncGenerator<Event> {
  const response = await send(path, { ...options, headers: { accept: 'text/event-stream', ...options.headers } });
  if (!response.body) return;
  try {
    for await (const data of serverSentEvents(response.body)) yield parseJson(data) as Event;
  } catch (error) {
    throw isAbort(error) || options.signal?.aborted ? error : unreachable(error);
  }
}
