import { expect, test } from 'vitest';
import { isStreamName, SHIPPERS } from './shippers';

const text = (id: string, key: string | null, origin = 'http://127.0.0.1:9200', stream = 'logs') => SHIPPERS.find((shipper) => shipper.id === id)?.text({ origin, stream, key }) ?? '';

test('every example contains the server and the stream, and a key only if there is one', () => {
  for (const { id } of SHIPPERS) {
    const open = text(id, null, 'https://firn.example:9243');
    expect(open, id).toContain('firn.example');
    expect(open, id).toContain('9243');
    expect(open, id).toContain('logs');
    expect(open, id).not.toMatch(/api.?key|authorization|null|undefined/i);
    expect(text(id, btoa('my-id:my-secret')), id).toMatch(id === 'filebeat' ? /my-id:my-secret/ : new RegExp(btoa('my-id:my-secret')));
  }
});

test('ports and TLS follow from the address', () => {
  expect(text('fluent-bit', null, 'https://firn.example')).toMatch(/Port +443\n +tls +On/);
  expect(text('fluent-bit', null, 'http://[::1]:9200')).toMatch(/Host +::1\n +Port +9200\n +tls +Off/);
});

test('quotes are escaped for the shell', () => {
  expect(text('curl', "a'; rm -rf /; '")).toContain(`-H 'Authorization: ApiKey a'\\''; rm -rf /; '\\'''`);
});

test('names that the server refuses', () => {
  expect(['logs', 'web-2026.11', 'ä'].every(isStreamName)).toBe(true);
  expect(['', 'Logs', '-logs', '.logs', '_logs', 'a b', 'a,b', 'a*', 'a/b', 'a:b'].some(isStreamName)).toBe(false);
});

test('shippers retry events that the server refused temporarily', () => {
  expect(text('fluent-bit', null)).toMatch(/^ {4}Retry_Limit +no_limits$/m);
  expect(text('fluent-bit', null)).toMatch(/^ {4}Buffer_Size +False$/m);
  expect(text('vector', null)).toMatch(/^ {4}request_retry_partial: true$/m);
});

test('Vector has no health check with a key that lacks the privilege', () => {
  expect(text('vector', 'a2V5')).toMatch(/^ {4}healthcheck:\n {6}enabled: false$/m);
  expect(text('vector', null)).not.toContain('healthcheck');
});
