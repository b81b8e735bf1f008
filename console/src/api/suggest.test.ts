import { afterEach, expect, it, vi } from 'vitest';
import { suggest } from './suggest';

afterEach(() => vi.unstubAllGlobals());

const item = { kind: 'value', text: '"a"', label: 'a' };

/** Answers one request after the other, and remembers what was asked. */
function answers(...all: object[]): { timeout?: string }[] {
  const asked: { timeout?: string }[] = [];
  vi.stubGlobal('fetch', (_path: string, { body }: { body: string }) => {
    asked.push(JSON.parse(body) as { timeout?: string });
    return Promise.resolve(new Response(JSON.stringify({ replace: { from: 0, to: 0 }, error: null, ...all[asked.length - 1] })));
  });
  return asked;
}

const ask = async () => (await suggest({ index: 'a' }, 0, new AbortController().signal)).items;

it('asks a busy server once more, with time', async () => {
  const asked = answers({ items: [], timed_out: true }, { items: [item], timed_out: false });
  expect(await ask()).toEqual([item]);
  expect(asked.map(({ timeout }) => timeout)).toEqual([undefined, '5s']);
});

it('takes what is there, and nothing for nothing', async () => {
  for (const answer of [
    { items: [item], timed_out: true },
    { items: [], timed_out: false },
  ]) {
    const asked = answers(answer);
    expect(await ask()).toEqual(answer.items);
    expect(asked).toHaveLength(1);
  }
});
