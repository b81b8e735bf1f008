import { afterEach, expect, test, vi } from 'vitest';
import { importFiles, joined } from './sigma-import';

afterEach(() => vi.unstubAllGlobals());

test('files are joined as documents of YAML, in texts of a limited length', () => {
  expect(joined(['a: 1', 'b: 2'], 100)).toEqual(['a: 1\n---\nb: 2']);
  expect(joined(['aaaa', 'bbbb', 'c'.repeat(50), 'd'], 14)).toEqual(['aaaa\n---\nbbbb', 'c'.repeat(50), 'd']);
  expect(joined([])).toEqual([]);
});

test('an import names the rules that were refused', async () => {
  const sent: [string, RequestInit][] = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    sent.push([url, init]);
    return Promise.resolve(Response.json({ imported: ['a'], refused: [{ id: 'b', title: 'B', reason: 'has no condition' }] }));
  });
  const progress = vi.fn();
  const files = [new File(['title: A'], 'a.yml'), new File(['title: B'], 'b.yml')];
  const result = await importFiles(files, { enabled: false, tenant: 'acme', channels: ['mail', 'chat'] }, progress);
  expect(result).toEqual({ imported: ['a'], refused: [{ id: 'b', title: 'B', reason: 'has no condition' }] });
  expect(progress).toHaveBeenLastCalledWith(result, 1);
  expect(sent).toHaveLength(1);
  expect(sent[0]?.[0]).toBe('/_firn/rules/_import?enabled=false&tenant=acme&channels=mail%2Cchat');
  expect(sent[0]?.[1]).toMatchObject({ method: 'POST', body: 'title: A\n---\ntitle: B', headers: { 'content-type': 'application/yaml' } });
});
