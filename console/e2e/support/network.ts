import type { CDPSession, Page } from 'playwright-core';

/** One session for each page: what one sets another would not take back. */
const sessions = new WeakMap<Page, Promise<CDPSession>>();

interface Line {
  latencyMs: number;
  /** -1: as fast as it goes. */
  bytesPerSecond: number;
}

/** A line as slow as this, from now on. */
export async function slowLine(page: Page, { latencyMs, bytesPerSecond }: Line): Promise<void> {
  const known = sessions.get(page) ?? page.context().newCDPSession(page);
  sessions.set(page, known);
  const session = await known;
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: latencyMs, downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond });
}
