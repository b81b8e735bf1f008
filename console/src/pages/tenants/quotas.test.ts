import { describe, expect, it } from 'vitest';
import { isTenantId, printBytes, problems, toForm, toSettings } from './quotas';

const EMPTY = toForm({ quotas: {} });

describe('settings of a tenant', () => {
  it('round-trip through the form', () => {
    const settings = { display_name: 'Acme', retention: '90d', quotas: { ingest_events_per_second: 5000, stored_bytes: 10 * 1024 ** 3 } };
    expect(toForm(settings)).toMatchObject({ retention: '90d', ingest_events_per_second: '5000', stored_bytes: '10gb', search_cpu_share: '' });
    expect(toSettings(toForm(settings))).toEqual({ ...settings, quotas: { ingest_events_per_second: 5000, stored_bytes: '10gb' } });
  });

  it('leave out empty fields, and keep a plain number of bytes a number', () => {
    expect(toSettings(EMPTY)).toEqual({ quotas: {} });
    expect(toSettings({ ...EMPTY, stored_bytes: ' 1025 ' })).toEqual({ quotas: { stored_bytes: 1025 } });
  });

  it('are validated before they are sent', () => {
    expect(problems(EMPTY)).toEqual({});
    expect(problems({ ...EMPTY, retention: '90d', stored_bytes: '1.5GB', concurrent_searches: '8' })).toEqual({});
    const wrong = problems({ ...EMPTY, retention: 'long', stored_bytes: 'ten', concurrent_searches: '-1' });
    expect(Object.keys(wrong).sort()).toEqual(['concurrent_searches', 'retention', 'stored_bytes']);
  });

  it('print sizes exactly', () => {
    expect([0, 1, 1024, 1025, 10 * 1024 ** 2].map(printBytes)).toEqual(['0b', '1b', '1kb', '1025b', '10mb']);
  });

  it('belong to an id that the server accepts', () => {
    expect(['acme', 'a', '0.x_y-z', 'a'.repeat(64)].every(isTenantId)).toBe(true);
    expect(['', '_default', '-a', 'a b', 'a/b', 'a'.repeat(65)].some(isTenantId)).toBe(false);
  });
});
