// Writes dist/assets/licenses.txt: name, version and licence of each package that the built files contain.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const texts = [];
for (const [folder, entry] of Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1))) {
  if (folder === '' || entry.dev || entry.optional) continue;
  const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
  // Types are not part of the built files.
  if (name.startsWith('@types/') || name === 'undici-types') continue;
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copyrightnotice)/i.test(file));
  if (files.length === 0) throw new Error(`${name} has no licence`);
  const parts = files.sort().map((file) => readFileSync(path.join(folder, file), 'utf8').trim());
  texts.push(`${name} ${entry.version} (${entry.license})\n\n${parts.join('\n\n')}\n`);
}
writeFileSync('dist/assets/licenses.txt', texts.join(`\n${'-'.repeat(80)}\n\n`));
