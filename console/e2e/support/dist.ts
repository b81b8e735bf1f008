import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { BrowserContext } from 'playwright-core';

const TYPES: Record<string, string> = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/** Serves the console from a folder instead of the binary, with the headers of the server. */
export async function serveFrom(folder: string, context: BrowserContext): Promise<void> {
  await context.route(/^https?:\/\/[^/]+\/app(\/|$|\?)/, async (route) => {
    const { pathname } = new URL(route.request().url());
    const type = TYPES[extname(pathname)];
    if (type) return route.fulfill({ body: await readFile(join(folder, pathname.slice('/app/'.length))), contentType: type });
    if (route.request().resourceType() !== 'document') return route.fallback();
    const response = await route.fetch();
    const nonce = /'nonce-([^']+)'/.exec(response.headers()['content-security-policy'] ?? '')?.[1] ?? '';
    const page = await readFile(join(folder, 'index.html'), 'utf8');
    return route.fulfill({ response, body: page.replaceAll('__FIRN_CSP_NONCE__', nonce) });
  });
}
