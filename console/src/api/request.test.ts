import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { credentials } from './credentials';
import { ApiError, errorFromObject } from './errors';
import { request } from './request';

const answer = (body: unknown, status = 200, headers: Record<string, string> = {}) =>
  new Response(typeof body === 'string' ? body : JSON.stringify(body), { status, headers });

describe('request', () => {
  const fetched = vi.fn<typeof fetch>();
  beforeEach(() => vi.stubGlobal('fetch', fetched));
  afterEach(() => {
    fetched.mockReset();
    credentials.renew(null);
  });

  const headersOf = (call: number) => fetched.mock.calls[call]?.[1]?.headers as Record<string, string>;

  it('sends the CSRF token and a JSON body', async () => {
    credentials.renew('token');
    fetched.mockResolvedValueOnce(answer({ ok: true }));
    expect(await request('/x', { body: { a: 1 }, query: { size: 2, no: undefined } })).toEqual({ ok: true });
    expect(fetched.mock.calls[0]?.[0]).toBe('/x?size=2');
    expect(fetched.mock.calls[0]?.[1]?.method).toBe('POST');
    expect(headersOf(0)['x-firn-csrf']).toBe('token');
  });

  it('sends text of another type unchanged', async () => {
    fetched.mockResolvedValueOnce(answer({ ok: true }));
    await request('/x', { text: { type: 'application/yaml', content: 'a: 1' } });
    expect(fetched.mock.calls[0]?.[1]).toMatchObject({ method: 'POST', body: 'a: 1' });
    expect(headersOf(0)['content-type']).toBe('application/yaml');
  });

  it("keeps the server's text, type and position", async () => {
    const error = { type: 'parsing_exception', reason: 'expected a value', position: { start: 3, end: 4 }, expected: ['value'] };
    fetched.mockResolvedValueOnce(answer({ error, status: 400 }, 400));
    const caught = await request('/x').catch((failure: unknown) => failure as ApiError);
    expect(caught).toBeInstanceOf(ApiError);
    expect(caught).toMatchObject({ message: 'expected a value', status: 400, type: 'parsing_exception', expected: ['value'] });
    expect((caught as ApiError).position).toEqual({ start: 3, end: 4 });
  });

  it('reports the cause when a search failed on all shards', async () => {
    const cause = { type: 'query_shard_exception', reason: 'failed to create query: For input string: "abc"', index: 'i' };
    const error = { type: 'search_phase_execution_exception', reason: 'all shards failed', root_cause: [cause] };
    fetched.mockResolvedValueOnce(answer({ error, status: 400 }, 400)).mockResolvedValueOnce(answer({ error: { ...error, root_cause: [] }, status: 503 }, 503));
    await expect(request('/x')).rejects.toMatchObject({ message: cause.reason, type: cause.type, status: 400 });
    await expect(request('/x')).rejects.toMatchObject({ message: 'all shards failed', type: error.type });
  });

  it('reports the cause when an async search failed', () => {
    const reason = { type: 'illegal_argument_exception', reason: 'Text fields are not optimised' };
    const failed = { type: 'search_phase_execution_exception', reason: 'all shards failed', failed_shards: [{ shard: 0, index: 'i', reason }] };
    const wrapped = (cause: object) => errorFromObject({ type: 'status_exception', reason: 'error while executing search', caused_by: cause }, 400);
    expect(wrapped(failed)).toMatchObject({ message: reason.reason, type: reason.type });
    expect(wrapped(reason)).toMatchObject({ message: reason.reason, type: reason.type });
    // Failure in the reduce phase.
    const after = { type: 'search_phase_execution_exception', reason: '', failed_shards: [], caused_by: { type: 'script_exception', reason: 'no such variable' } };
    expect(wrapped(after)).toMatchObject({ message: 'no such variable', type: 'script_exception' });
    expect(wrapped({ ...failed, failed_shards: [] })).toMatchObject({ message: 'all shards failed' });
    expect(errorFromObject({ type: 'status_exception', reason: 'of something else' }, 500)).toMatchObject({ message: 'of something else' });
  });

  it('keeps the text of a response that is not JSON, and its Retry-After', async () => {
    fetched.mockResolvedValueOnce(answer('bad gateway', 502, { 'retry-after': '7' }));
    await expect(request('/x')).rejects.toMatchObject({ message: 'bad gateway', status: 502, retryAfterSeconds: 7 });
  });

  it('reports an unreachable server', async () => {
    fetched.mockRejectedValueOnce(new TypeError('Failed to fetch'));
    await expect(request('/x')).rejects.toMatchObject({ status: 0, type: 'unreachable' });
  });

  it('waits for a new sign-in after a 401, then continues with the new token', async () => {
    credentials.renew('old');
    fetched.mockResolvedValueOnce(answer({ error: { reason: 'expired' } }, 401)).mockResolvedValueOnce(answer({ ok: 1 }));
    const pending = request('/x', { body: {} });
    await vi.waitFor(() => expect(credentials.expired()).toBe(true));
    credentials.renew('new');
    expect(await pending).toEqual({ ok: 1 });
    expect(headersOf(1)['x-firn-csrf']).toBe('new');
  });

  const CHANGED = { error: { type: 'session_changed_exception', reason: 'look anew' }, status: 403 };

  it('fetches the session again when it has changed, and continues with its token', async () => {
    credentials.renew('old');
    const look = vi.fn(() => Promise.resolve(credentials.renew('new')));
    credentials.onDoubt(look);
    fetched.mockImplementation((_, init) => Promise.resolve((init?.headers as Record<string, string>)['x-firn-csrf'] === 'new' ? answer({ ok: 1 }) : answer(CHANGED, 403)));
    expect(await Promise.all([request('/x'), request('/y', { body: {} })])).toEqual([{ ok: 1 }, { ok: 1 }]);
    expect(look).toHaveBeenCalledOnce();
  });

  it('fails when fetching the session again changes nothing', async () => {
    credentials.renew('same');
    credentials.onDoubt(() => Promise.resolve());
    fetched.mockImplementation(() => Promise.resolve(answer(CHANGED, 403)));
    await expect(request('/x')).rejects.toMatchObject({ message: 'look anew', status: 403 });
    expect(fetched).toHaveBeenCalledOnce();
  });

  it('does not retry a request that was sent before a view change', async () => {
    credentials.renew('own');
    fetched.mockImplementationOnce(() => {
      credentials.takeView('of acme');
      return Promise.resolve(answer(CHANGED, 403));
    });
    await expect(request('/x')).rejects.toMatchObject({ name: 'AbortError' });
    expect(fetched).toHaveBeenCalledOnce();
  });

  it('stops waiting when it is cancelled', async () => {
    fetched.mockResolvedValueOnce(answer({}, 401));
    const abort = new AbortController();
    const pending = request('/x', { signal: abort.signal });
    await vi.waitFor(() => expect(credentials.expired()).toBe(true));
    abort.abort();
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('fails with a 401 at once if `on401` is `fail`', async () => {
    fetched.mockResolvedValueOnce(answer({ error: { reason: 'wrong password' } }, 401));
    await expect(request('/x', { on401: 'fail' })).rejects.toMatchObject({ message: 'wrong password', status: 401 });
    expect(credentials.expired()).toBe(false);
  });
});
