import type { BrowserContext } from 'playwright-core';
import type { Firn } from './firn';

/** A server that has no sessions yet: everybody is an operator there, as without security. */
export async function pretendSession(context: BrowserContext, firn: Firn): Promise<void> {
  const { status } = await fetch(`${firn.url}/_firn/session`);
  if (status !== 400) return;
  const session = { security: false, user: null, tenant: null, operator: true, view_as: null, csrf: null, name: 'firn', version: '0' };
  await context.route('**/_firn/session', (route) => route.fulfill({ json: session }));
}
