import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';
import { firstLoad } from './build/first-load';
import { iconImports } from './build/icon-imports';

/** Running firn to which `npm run dev` forwards all requests outside of the console. */
const FIRN_URL = process.env['FIRN_URL'] ?? 'http://127.0.0.1:9200';

/** Node before 21 has JSON.rawJSON, which all current browsers have, only behind a flag. */
const NODE_FLAGS = 'rawJSON' in JSON ? [] : ['--harmony-json-parse-with-source'];

export default defineConfig({
  base: '/app/',
  // The server replaces this placeholder by a fresh nonce in every index.html that it sends (docs/operate/console.md).
  html: { cspNonce: '__FIRN_CSP_NONCE__' },
  plugins: [iconImports(), react(), firstLoad({ page: 'src/pages/discover/index.tsx', gzipBytesMax: 350 * 1024 })],
  build: { target: 'es2022', assetsInlineLimit: 0, chunkSizeWarningLimit: 1024 },
  server: { proxy: { '^/(?!app(/|$))': { target: FIRN_URL } } },
  test: {
    environment: 'node',
    include: ['src/**/*.test.{ts,tsx}', 'build/**/*.test.ts'],
    setupFiles: ['build/raw-json.ts', 'build/async-timeout.ts'],
    testTimeout: 60_000,
    poolOptions: { forks: { execArgv: NODE_FLAGS } },
  },
});
