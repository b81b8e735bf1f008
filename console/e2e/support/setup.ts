import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { ARTIFACTS, chromium, firnBinary } from './paths';

/** Runs before all tests: checks that binary and browser exist, and deletes screenshots of earlier runs. */
export default function setup(): void {
  for (const path of [firnBinary(), chromium()]) if (!existsSync(path)) throw new Error(`${path} does not exist`);
  rmSync(ARTIFACTS, { recursive: true, force: true });
  mkdirSync(ARTIFACTS, { recursive: true });
}
