import type { CDPSession, Page } from 'playwright-core';

/** One session per page: another session could not reset the conditions. */
const sessions = new WeakMap<Page, Promise<CDPSession>>();

interface Line {
  latencyMs: number;
  /** -1 for no limit. */
  bytesPerSecond: number;
}

/** Limits the network of a page from now on. */
export async function slowLine(page: Page, { latencyMs, bytesPerSecond }: Line): Promise<void> {
  const known = sessions.get(page) ?? page.context().newCDPSession(page);
  sessions.set(page, known);
  const session = await known;
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: latencyMs, downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond });
}
