import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { ARTIFACTS, chromium, firnBinary } from './paths';

/** Before all tests: what they need is there, and pictures of an earlier run are not. */
export default function setup(): void {
  for (const path of [firnBinary(), chromium()]) if (!existsSync(path)) throw new Error(`there is no ${path}`);
  rmSync(ARTIFACTS, { recursive: true, force: true });
  mkdirSync(ARTIFACTS, { recursive: true });
}
