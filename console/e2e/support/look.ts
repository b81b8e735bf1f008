import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { ARTIFACTS } from './paths';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** WCAG 2.2 rules of level AA that can be checked automatically. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** Takes the screenshots `NAME-light.png` and `NAME-dark.png`, and fails on accessibility violations in either. */
export async function look(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.locator(`html[data-mantine-color-scheme="${colorScheme}"]`).waitFor();
    await settle(page);
    await page.screenshot({ path: join(ARTIFACTS, `${name}-${colorScheme}.png`), animations: 'disabled' });
    await checkAccess(page, `${name}, ${colorScheme}`);
  }
}

/** Waits two frames: charts render in the new colors one frame later. */
async function settle(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** Throws if axe-core finds violations, and lists each with its element. */
export async function checkAccess(page: Page, what: string): Promise<void> {
  await page.evaluate(AXE);
  // A modal dialog takes the page behind it out of reach, so only the dialog and what it opened are checked.
  const context = `document.querySelector('[aria-modal="true"]') ? { exclude: ['#root'] } : document`;
  const results = (await page.evaluate(`axe.run(${context}, { runOnly: ${JSON.stringify(RULES)}, resultTypes: ['violations'] })`)) as AxeResults;
  const found = results.violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}\n  ${node.html}\n  ${node.failureSummary ?? ''}`));
  if (found.length > 0) throw new Error(`${what}: axe-core found ${found.length}:\n${found.join('\n')}`);
}
