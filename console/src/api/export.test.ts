import { describe, expect, it } from 'vitest';
import { ApiError, errorFromObject } from './errors';
import { estimateOf, failureOf } from './export';

describe('the last line of an export', () => {
  it('of NDJSON contains the reason of a failure', () => {
    const failed = { event: 'failed', status: 404, error: { type: 'index_not_found_exception', reason: 'no such index [a]' }, events: 1, total: 2 };
    const error = failureOf(`{"n":1}\n${JSON.stringify(failed)}\n`, 'ndjson');
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ message: 'no such index [a]', status: 404, type: 'index_not_found_exception' });
  });

  it('of CSV contains the failure as text', () => {
    expect(failureOf('n\r\n1\r\n# the export broke off after 1 of 2 events: x\r\n', 'csv')?.message).toBe('the export broke off after 1 of 2 events: x');
    expect(failureOf('1\r\n"# the export broke off: a, ""b"""\r\n', 'csv')?.message).toBe('the export broke off: a, "b"');
  });

  it('is an event otherwise', () => {
    for (const end of ['', '{"n":1}\n', '{"event":"failed"}\n', '{"event":"failed","status":"x","error":{}}\n', '{"n":', 'null\n']) expect(failureOf(end, 'ndjson')).toBeNull();
    expect(failureOf('n\r\n1\r\n', 'csv')).toBeNull();
  });
});

describe('the estimate of an export', () => {
  const estimate = { requests: 3, bytes: 70, ms: 90, splits: 2 };
  const refusal = (status: number, detail: object) => errorFromObject({ type: 'x', reason: 'y', ...detail }, status);

  it('is read from a 409 error', () => {
    expect(estimateOf(refusal(409, { estimate }))).toEqual(estimate);
  });

  it('is null for errors that the user cannot confirm', () => {
    for (const error of [refusal(400, { estimate, limit: 'search_repository_bytes' }), refusal(409, {}), new Error('x')]) expect(estimateOf(error)).toBeNull();
  });
});
