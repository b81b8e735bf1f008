import type { Page } from 'playwright-core';

/** A line as slow as this, from now on. */
export async function slowLine(page: Page, { latencyMs, bytesPerSecond }: { latencyMs: number; bytesPerSecond: number }): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: latencyMs, downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond });
}
