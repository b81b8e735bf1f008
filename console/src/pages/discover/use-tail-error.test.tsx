// @vitest-environment jsdom
import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { useTail } from './use-tail';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it('reports the reason why the server ended the tail', async () => {
  const failed = { event: 'failed', status: 403, error: { type: 'security_exception', reason: 'no longer allowed' } };
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(`data: ${JSON.stringify(failed)}\n\n`)));
  const question = { index: 'a' };
  const { result } = renderHook(() => useTail(question, null));
  await waitFor(() => expect(result.current.error).not.toBeNull());
  expect(result.current.error).toMatchObject({ message: 'no longer allowed', status: 403 });
});
