import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** The console in a real Chromium, against a real firn: `npm run e2e [part of a file's name]`. */
export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    environment: 'node',
    include: ['e2e/**/*.e2e.ts'],
    globalSetup: ['e2e/support/setup.ts'],
    // Browser and server share the machine with everything else that runs.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 15_000 } },
    // Each file has a server and a browser of its own.
    poolOptions: { forks: { minForks: 1, maxForks: 2 } },
    reporters: ['verbose'],
  },
});
