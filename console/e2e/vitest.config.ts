import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Tests of the console in Chromium against a real firn: `npm run e2e [part of a file name]`. */
export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    environment: 'node',
    include: ['e2e/**/*.e2e.ts'],
    globalSetup: ['e2e/support/setup.ts'],
    // Browser and server share the machine with other programs.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    // Each file has a separate server and browser.
    poolOptions: { forks: { minForks: 1, maxForks: 2 } },
    reporters: ['verbose'],
  },
});
