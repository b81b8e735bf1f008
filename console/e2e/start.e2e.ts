import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { firnBinary } from './support/paths';
import { expect, test } from './support/test';

describe('the first visit to an empty server', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
  });

  afterAll(() => firn.stop());

  test('the copied examples send events, and the page counts them', async ({ windows }) => {
    const page = await windows.open(firn, '/start');
    await page.getByText('No events in logs yet').waitFor();
    await look(page, 'start');

    await page.getByRole('button', { name: 'Copy curl block' }).click();
    const curl = await page.evaluate(() => navigator.clipboard.readText());
    execFileSync('/bin/sh', ['-c', `${curl} -sf`]);
    await page.getByText('1 event is in logs.').waitFor();
    expect(await page.getByRole('link', { name: 'Open in Discover' }).getAttribute('href')).toContain('i=logs');

    // The index page lists an index without a data stream too.
    const other = await windows.open(firn, '/indices');
    await other.getByText('No data streams yet').waitFor();
    await other.getByRole('link', { name: 'logs', exact: true }).waitFor();

    await page.getByLabel('Data stream or index').fill('from-a-file');
    await page.getByRole('tab', { name: 'firn ingest' }).click();
    const command = (await page.getByLabel('firn ingest block', { exact: true }).textContent()) ?? '';
    const folder = mkdtempSync(join(tmpdir(), 'firn-e2e-start-'));
    try {
      const file = join(folder, 'events.ndjson');
      writeFileSync(file, Array.from({ length: 50 }, (_, at) => `{"@timestamp":"2026-11-01T00:00:${String(at).padStart(2, '0')}Z","message":"m"}\n`).join(''));
      execFileSync('/bin/sh', ['-c', command.replace(/^firn /, `${firnBinary()} `).replace('events.ndjson.gz', file)]);
    } finally {
      rmSync(folder, { recursive: true });
    }
    await page.getByText('50 events are in from-a-file.').waitFor();
    await other.goto(`${firn.url}/app/indices`);
    await other.getByRole('link', { name: 'from-a-file', exact: true }).waitFor();

    for (const name of ['Filebeat', 'Fluent Bit', 'Vector']) {
      await page.getByRole('tab', { name }).click();
      const text = (await page.getByLabel(`${name} block`, { exact: true }).textContent()) ?? '';
      expect(text, name).toContain(new URL(firn.url).port);
      expect(text, name).toContain('from-a-file');
    }
    await look(page, 'start-vector');
  });
});
