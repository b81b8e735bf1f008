// Writes NAME.gz and NAME.br beside each file of a folder that compression makes smaller, at the highest level: files
// are compressed once and read by every browser. usage: node compress.mjs FOLDER
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

// Pictures and fonts are compressed already.
const COMPRESSED = /\.(js|css|html|svg|json|webmanifest|txt|wasm)$/;

for (const entry of readdirSync(process.argv[2], { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !COMPRESSED.test(entry.name)) continue;
  const path = join(entry.parentPath ?? entry.path, entry.name);
  const plain = readFileSync(path);
  const forms = {
    gz: gzipSync(plain, { level: 9 }),
    br: brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } }),
  };
  for (const [extension, bytes] of Object.entries(forms)) {
    if (bytes.length < plain.length) writeFileSync(`${path}.${extension}`, bytes);
  }
}
