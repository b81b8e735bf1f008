import { afterEach, expect, test, vi } from 'vitest';
import { byMember, importFiles, placeOf, requestTexts } from './import-files';

afterEach(() => vi.unstubAllGlobals());

const yaml = (...texts: string[]) => texts.map((text, at) => ({ name: `${at}.yml`, text }));

test('Sigma files are joined as documents of YAML, in texts of a limited length', () => {
  const contents = (texts: string[], charsMax?: number) => requestTexts(yaml(...texts), charsMax).map(({ content }) => content);
  expect(contents(['a: 1', 'b: 2'], 100)).toEqual(['a: 1\n---\nb: 2']);
  expect(contents(['aaaa', 'bbbb', 'c'.repeat(50), 'd'], 14)).toEqual(['aaaa\n---\nbbbb', 'c'.repeat(50), 'd']);
  expect(contents([])).toEqual([]);
});

test('an NDJSON file is a request of its own', () => {
  const texts = requestTexts([{ name: 'a.yml', text: 'a: 1' }, { name: 'k.ndjson', text: '{}\n{}' }, { name: 'b.yaml', text: 'b: 2' }]);
  expect(texts.map(({ type, content }) => [type, content])).toEqual([
    ['application/yaml', 'a: 1'],
    ['application/x-ndjson', '{}\n{}'],
    ['application/yaml', 'b: 2'],
  ]);
});

test('lines of a request lead to their files', () => {
  const [text] = requestTexts(yaml('a: 1\nb: 1', 'c: 1\n', 'd: 1'));
  const lines = text?.content.split('\n') ?? [];
  const places = lines.map((line, at) => (line.includes(':') ? `${line} ${placeOf(text ?? { files: [] }, at + 1)}` : ''));
  expect(places.filter(Boolean)).toEqual(['a: 1 0.yml:1', 'b: 1 0.yml:2', 'c: 1 1.yml:1', 'd: 1 2.yml:1']);
});

test('an import names the rules that were refused, and what of others was not taken', async () => {
  const sent: [string, RequestInit][] = [];
  const members = [{ member: 'actions', reason: 'channels' }];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    sent.push([url, init]);
    const answer =
      sent.length === 1
        ? { imported: ['a'], refused: [{ line: 3, id: 'b', name: 'B', reason: 'has no condition' }], not_taken: [], notes: [] }
        : { imported: ['c', 'd'], refused: [], not_taken: [{ line: 1, id: 'c', name: 'C', members }, { line: 2, id: 'd', name: '', members: [...members, { member: 'note', reason: 'none' }] }], notes: [{ line: 1, id: 'c', name: 'C', members: [{ member: 'interval', reason: 'each event' }] }] };
    return Promise.resolve(Response.json(answer));
  });
  const progress = vi.fn();
  const files = [new File(['title: A'], 'a.yml'), new File(['title: B'], 'b.yml'), new File(['{}'], 'c.ndjson')];
  const result = await importFiles(files, { enabled: false, overwrite: true, tenant: 'acme', channels: ['mail', 'chat'] }, progress);
  expect(result.imported).toEqual(['a', 'c', 'd']);
  expect(result.refused).toMatchObject([{ id: 'b', reason: 'has no condition', place: 'b.yml:1' }]);
  expect(result.notTaken.map(({ place }) => place)).toEqual(['c.ndjson:1', 'c.ndjson:2']);
  expect(byMember(result.notTaken)).toEqual([
    { member: 'actions', reason: 'channels', rules: ['C', 'd'] },
    { member: 'note', reason: 'none', rules: ['d'] },
  ]);
  expect(byMember(result.notes)).toEqual([{ member: 'interval', reason: 'each event', rules: ['C'] }]);
  expect(progress).toHaveBeenLastCalledWith(result, 1);
  expect(sent.map(([url]) => url)).toEqual(['/_firn/rules/_import?enabled=false&overwrite=true&tenant=acme&channels=mail%2Cchat', '/_firn/rules/_import?enabled=false&overwrite=true&tenant=acme&channels=mail%2Cchat']);
  expect(sent[0]?.[1]).toMatchObject({ method: 'POST', body: 'title: A\n---\ntitle: B', headers: { 'content-type': 'application/yaml' } });
  expect(sent[1]?.[1]).toMatchObject({ method: 'POST', body: '{}', headers: { 'content-type': 'application/x-ndjson' } });
});
