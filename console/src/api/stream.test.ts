import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { serverSentEvents } from './stream';

/** Body that arrives in chunks of the given sizes; chunks may split characters and lines. */
function inPieces(text: string, sizes: number[]): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  let turn = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      const size = sizes[turn++ % sizes.length] ?? 1;
      controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
}

async function all(body: ReadableStream<Uint8Array>): Promise<string[]> {
  const events: string[] = [];
  for await (const data of serverSentEvents(body)) events.push(data);
  return events;
}

describe('serverSentEvents', () => {
  it('reads data and ignores comments, ids and names', async () => {
    const text = ': hello\n\nid: 1\nevent: opened\ndata: {"a":1}\n\n: keep-alive\n\ndata:{"b":2}\r\n\r\n';
    expect(await all(inPieces(text, [1000]))).toEqual(['{"a":1}', '{"b":2}']);
  });

  it('joins data lines with newlines', async () => {
    expect(await all(inPieces('data: {"a":\ndata: 1}\n\n', [3]))).toEqual(['{"a":\n1}']);
  });

  it('drops an incomplete event', async () => {
    expect(await all(inPieces('data: 1\n\ndata: 2', [1000]))).toEqual(['1']);
  });

  it('does not depend on chunk boundaries', async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue({ stringUnit: 'binary' })), sizes, async (values, cuts) => {
        const texts = values.map((value) => JSON.stringify(value));
        const body = texts.map((text) => `id: 7\ndata: ${text}\n\n`).join('');
        expect(await all(inPieces(body, cuts))).toEqual(texts);
      }),
    );
  });

  it('closes the connection when its reader stops', async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode('data: 1\n\n')),
      cancel: () => void (cancelled = true),
    });
    for await (const data of serverSentEvents(body)) {
      expect(data).toBe('1');
      break;
    }
    expect(cancelled).toBe(true);
  });
});
