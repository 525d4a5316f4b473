/** Holds what a first visit loads (page, scripts, styles; brotli) to the budget. */
import { readFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";

const LIMIT_KB = 250;
const dist = new URL("../dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));

const read = (file) => brotliCompressSync(readFileSync(new URL(file, dist))).length;

/** A chunk with all that it imports at once, and their styles. */
function filesOf(key, found = new Set()) {
  const chunk = manifest[key];
  if (found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const style of chunk.css ?? []) found.add(style);
  for (const next of chunk.imports ?? []) filesOf(next, found);
  return found;
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const first = filesOf(entry);
const kilobytes = (files) => [...files].reduce((sum, file) => sum + read(file), 0) / 1000;
const size = kilobytes(["index.html", "scheme.js", ...first]);

for (const key of Object.keys(manifest).filter((name) => manifest[name].isDynamicEntry)) {
  const more = [...filesOf(key)].filter((file) => !first.has(file));
  console.log(`${kilobytes(more).toFixed(1).padStart(8)} kB  when opened: ${manifest[key].src ?? key}`);
}
console.log(`${size.toFixed(1).padStart(8)} kB  first load (limit ${LIMIT_KB} kB)`);
if (size > LIMIT_KB) {
  console.error(`The first load is ${(size - LIMIT_KB).toFixed(1)} kB over its budget.`);
  process.exit(1);
}
