import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CONSOLE = fileURLToPath(new URL('../..', import.meta.url));

/** Pictures of every page, and of tests that failed. Not tracked. */
export const ARTIFACTS = join(CONSOLE, 'artifacts');

/** The server under test: `FIRN_BINARY`, else the debug build. */
export const firnBinary = (): string => process.env['FIRN_BINARY'] ?? join(CONSOLE, '../target/debug/firn');

/** The browser: `CHROMIUM`, else the one in the path. */
export const chromium = (): string => process.env['CHROMIUM'] ?? execFileSync('/bin/sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();

/**
 * `CONSOLE_DIST=console/dist` shows the files of that folder instead of those in the binary: whoever works on the
 * console need not build the binary for each try.
 */
export const distFolder = (): string | null => process.env['CONSOLE_DIST'] ?? null;
