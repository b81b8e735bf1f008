import { afterEach, expect, it, vi } from 'vitest';
import { suggest } from './suggest';

afterEach(() => vi.unstubAllGlobals());

const item = { kind: 'value', text: '"a"', label: 'a' };

/** Stubs `fetch` with one response per request, and records the request bodies. */
function answers(...all: object[]): { timeout?: string }[] {
  const asked: { timeout?: string }[] = [];
  vi.stubGlobal('fetch', (_path: string, { body }: { body: string }) => {
    asked.push(JSON.parse(body) as { timeout?: string });
    return Promise.resolve(new Response(JSON.stringify({ replace: { from: 0, to: 0 }, error: null, ...all[asked.length - 1] })));
  });
  return asked;
}

const ask = async () => (await suggest({ index: 'a' }, 0, new AbortController().signal)).items;

it('retries a busy server once with a longer timeout', async () => {
  const asked = answers({ items: [], timed_out: true }, { items: [item], timed_out: false });
  expect(await ask()).toEqual([item]);
  expect(asked.map(({ timeout }) => timeout)).toEqual([undefined, '5s']);
});

it('accepts partial suggestions, and an empty complete list', async () => {
  for (const answer of [
    { items: [item], timed_out: true },
    { items: [], timed_out: false },
  ]) {
    const asked = answers(answer);
    expect(await ask()).toEqual(answer.items);
    expect(asked).toHaveLength(1);
  }
});
