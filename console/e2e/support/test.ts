import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, test as base } from 'vitest';
import { serveFrom } from './dist';
import type { Account, Firn } from './firn';
import { ARTIFACTS, chromium as executable, distFolder } from './paths';

export { expect } from 'vitest';

let browser: Browser;

beforeAll(async () => {
  browser = await chromium.launch({ executablePath: executable(), headless: true });
});

afterAll(async () => {
  await browser.close();
});

export interface OpenOptions {
  /** User to sign in first; no sign-in without it. */
  as?: Account;
  /** Browser errors that this test accepts, such as those of a response that it breaks. */
  allow?: RegExp;
  /** The test mocks responses. Interception has to start before the page loads, or it misses some requests. */
  routes?: boolean;
  context?: BrowserContextOptions;
}

/** Messages that Chromium logs for a response that is not 2xx: the page shows these errors. */
const OF_ANSWERS = /^Failed to load resource: /;

/**
 * Browser windows of one test, each in a separate context. A test fails if one of them contacts another host than the
 * server, violates the Content-Security-Policy, throws, or logs an error.
 */
export class Windows {
  private readonly open_: BrowserContext[] = [];
  private readonly complaints: string[] = [];

  /** Opens a window with the console at `path`, such as `/tasks?kind=searches`. */
  async open(firn: Firn, path: string, { as, allow, routes = false, context: options }: OpenOptions = {}): Promise<Page> {
    const context = await browser.newContext({
      viewport: { width: 1440, height: 900 },
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      reducedMotion: 'reduce',
      permissions: ['clipboard-read', 'clipboard-write'],
      ...options,
    });
    this.open_.push(context);
    const complain = (text: string) => {
      if (!allow?.test(text)) this.complaints.push(text);
    };
    const { host } = new URL(firn.url);
    context.on('request', (request) => {
      const url = new URL(request.url());
      if (!['data:', 'blob:'].includes(url.protocol) && url.host !== host) complain(`contacted another host: ${url.href}`);
    });
    // The browser reports only that the policy was violated; this reports where.
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective, blockedURI, sourceFile, lineNumber, columnNumber }) => {
        console.error(`violated the policy: ${effectiveDirective} by ${blockedURI} at ${sourceFile}:${lineNumber}:${columnNumber}, in ${document.activeElement?.tagName ?? 'nothing'}`);
      });
    });
    context.on('weberror', (error) => complain(`threw: ${error.error().stack ?? error.error().message}`));
    context.on('console', (message) => {
      if (message.type() === 'error' && !OF_ANSWERS.test(message.text())) complain(`logged an error: ${message.text()}`);
    });
    if (routes) await context.route('**/never-requested', (route) => route.abort());
    const folder = distFolder();
    if (folder) await serveFrom(folder, context);
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    await page.goto(`${firn.url}/app${path}`);
    if (as) await signIn(page, as);
    return page;
  }

  /** Closes all windows; errors in them fail the test. */
  async close(picture: string | null): Promise<void> {
    for (const [at, context] of this.open_.entries()) {
      if (picture) {
        mkdirSync(join(ARTIFACTS, 'failed'), { recursive: true });
        for (const page of context.pages()) await page.screenshot({ path: join(ARTIFACTS, 'failed', `${picture}-${at + 1}.png`) }).catch(() => undefined);
      }
      await context.close();
    }
    if (this.complaints.length > 0) throw new Error(`the browser complained:\n${this.complaints.join('\n')}`);
  }
}

/** Fills in the sign-in form, and waits for the console. */
export async function signIn(page: Page, { username, password }: Account): Promise<void> {
  await page.getByLabel('Username').fill(username);
  await page.getByLabel(/^Password/).fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

/**
 * Test with browser windows: `test('…', async ({ windows }) => { const page = await windows.open(firn, '/tasks'); …
 * })`.
 */
export const test = base.extend<{ windows: Windows }>({
  windows: async ({ task, onTestFinished }, provide) => {
    const windows = new Windows();
    onTestFinished(() => windows.close(task.result?.state === 'fail' ? task.name.replaceAll(/[^a-z0-9]+/gi, '-') : null));
    await provide(windows);
  },
});
