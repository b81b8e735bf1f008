import { gzipSync } from 'node:zlib';
import type { Plugin, Rollup } from 'vite';

/** Returns the gzipped size of each file that a browser fetches before `page` is usable. */
export function firstLoadSizes(bundle: Rollup.OutputBundle, page: string): Map<string, number> {
  const chunks = Object.values(bundle).filter((file) => file.type === 'chunk');
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
  const needed = new Set<string>();
  const visit = (chunk: Rollup.OutputChunk | undefined) => {
    if (!chunk || needed.has(chunk.fileName)) return;
    needed.add(chunk.fileName);
    chunk.viteMetadata?.importedCss.forEach((file) => needed.add(file));
    chunk.imports.forEach((file) => visit(byName.get(file)));
  };
  chunks.filter((chunk) => chunk.isEntry).forEach(visit);
  const ofPage = chunks.find((chunk) => chunk.moduleIds.some((id) => id.endsWith(`/${page}`)));
  if (!ofPage) throw new Error(`no chunk has ${page}`);
  visit(ofPage);

  const sizes = new Map<string, number>();
  for (const name of needed) {
    const file = bundle[name];
    if (file) sizes.set(name, gzipSync(file.type === 'chunk' ? file.code : file.source).length);
  }
  return sizes;
}

/**
 * Fails the build if the first load of `page` exceeds `gzipBytesMax`, so that the console is usable in under a second.
 */
export function firstLoad({ page, gzipBytesMax }: { page: string; gzipBytesMax: number }): Plugin {
  return {
    name: 'firn-first-load',
    apply: 'build',
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        const sizes = firstLoadSizes(bundle, page);
        const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
        const list = [...sizes].map(([name, size]) => `  ${name}: ${size}`).join('\n');
        const summary = `first load of ${page}: ${total} bytes gzipped of at most ${gzipBytesMax}`;
        if (total > gzipBytesMax) this.error(`${summary}\n${list}`);
        console.info(summary);
      },
    },
  };
}
