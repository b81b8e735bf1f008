import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const CONSOLE = fileURLToPath(new URL('../..', import.meta.url));

/** Screenshots of every page, and of failed tests. Not tracked. */
export const ARTIFACTS = join(CONSOLE, 'artifacts');

/** Server under test: `FIRN_BINARY`, else the debug build. */
export const firnBinary = (): string => process.env['FIRN_BINARY'] ?? join(CONSOLE, '../target/debug/firn');

/** Browser: `CHROMIUM`, else the one in the path. */
export const chromium = (): string => process.env['CHROMIUM'] ?? execFileSync('/bin/sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();

/**
 * `CONSOLE_DIST=console/dist` serves the files of that folder instead of those in the binary, so that work on the console
 * needs no build of the binary.
 */
export const distFolder = (): string | null => process.env['CONSOLE_DIST'] ?? null;
