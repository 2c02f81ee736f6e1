/** The steps of docs/first-hour.md, from an empty directory to a chart of an own file. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { drop, expect, expectAccessible, faultsOf, shot, start, stop, test } from './support';

const page = readFileSync(path.join(process.env['TIDELAKE_DOCS'] ?? '../../docs', 'first-hour.md'), 'utf8');
/** Titles of the steps that a browser does, by the names in the page's comments. */
const titles = new Map([...page.matchAll(/<!-- step: (\w+) -->\n## \d\. (.+)/g)].map((found) => [found[1], found[2]]));

/** The file that the first step of the page makes, by the same rule. */
function fleet(): string {
  const minutes = Array.from({ length: 50 }, (_, minute) => minute + 10);
  const rows = minutes.flatMap((minute) => [1, 2, 3].map((host) => `2026-11-25T10:${minute}:00Z,h${host},${minute % (host + 4)}`));
  return `time,host,usage\n${rows.join('\n')}\n`;
}

test('the first hour goes as its page says', async ({ page: site }) => {
  const directory = mkdtempSync(path.join(tmpdir(), 'tidelake-console-'));
  const began = performance.now();
  const done: string[] = [];
  const step = async (name: string, body: () => Promise<void>) => {
    const title = titles.get(name);
    if (!title) throw new Error(`docs/first-hour.md has no step ${name}`);
    await test.step(title, body);
    done.push(name);
  };
  const server = await start(directory);
  const faults = faultsOf(site);

  await step('open', async () => {
    await site.goto(server.url);
    await expect(site.getByRole('heading', { name: 'This server has no data yet' })).toBeVisible();
    await site.getByRole('link', { name: 'Data', exact: true }).click();
  });
  const columns = site.getByRole('region', { name: 'Columns of the file' });
  await step('drop', async () => {
    await drop(site, '.data', 'fleet.csv', fleet());
    await expect(columns.getByLabel('Role of time')).toHaveValue('time');
    await expect(columns.getByLabel('Role of host')).toHaveValue('tag');
    await expect(columns.getByLabel('Role of usage')).toHaveValue('field');
  });
  await step('correct', async () => {
    await expect(columns.getByLabel('Type of usage')).toHaveValue('int');
    await columns.getByLabel('Type of usage').selectOption('double');
    await site.getByLabel('Into the database').fill('home');
    await expect(site.getByRole('button', { name: 'Import', exact: true })).toBeEnabled();
    await shot(site, 'import');
  });
  await step('import', async () => {
    await site.getByRole('button', { name: 'Import', exact: true }).click();
    await expect(site.getByRole('heading', { name: '150 rows written' })).toBeVisible();
  });
  await step('chart', async () => {
    await site.getByRole('link', { name: 'Chart' }).click();
    await expect(site.getByText(/Windows of/)).toBeVisible();
    await site.getByLabel('Group by').selectOption('host');
    await expect(site.getByRole('region', { name: 'Lines of the chart' }).locator('tbody tr')).toHaveCount(3);
    await expectAccessible(site);
    await shot(site, 'first-chart');
  });
  await step('query', async () => {
    await site.getByRole('link', { name: 'Open in Query' }).click();
    await site.getByRole('button', { name: 'Run', exact: true }).click();
    await expect(site.getByRole('grid', { name: 'Rows of the result' })).toBeVisible();
  });

  const seconds = (performance.now() - began) / 1000;
  expect(done).toEqual([...titles.keys()]);
  console.log(`the steps of the first hour: ${seconds.toFixed(1)} s, with the start of the server`);
  expect(faults).toEqual([]);
  await stop(server.process);
  rmSync(directory, { recursive: true });
});
