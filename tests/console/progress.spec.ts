/** The progress of a running statement: rows read of all, Cancel, and the reason of a result that ends before its last row. */
import { expect, expectAccessible, shot, test, type } from './support';

test.use({ file: 'progress' });

const rows = 20_000;

test('a running statement shows what it has read, under the ID of SHOW QUERIES, until it is cancelled', async ({ site, server }) => {
  const lines = Array.from({ length: rows }, (_, row) => `points,device=d${row % 4} value=${row}i ${1_767_225_600 + row}`);
  await server.write('plant', 's', lines.join('\n'));
  await site.getByRole('link', { name: 'Query' }).click();
  const slow = 'SELECT sum(a.value + b.value + c.value) FROM plant.points a, plant.points b, plant.points c';
  await type(site, slow);
  await site.keyboard.press('Control+Enter');
  const bar = site.getByRole('progressbar', { name: 'Rows read' });
  await expect(bar).toBeVisible();
  // Up to three scans of the table have begun.
  const all = Number(await bar.getAttribute('max'));
  expect([1, 2, 3].map((scans) => scans * rows)).toContain(all);
  await expect(site.getByText(/of [\d\u202f]+ rows read/)).toBeVisible();
  await expectAccessible(site);
  await shot(site, 'query-progress');
  const listed = async () =>
    (await server.sql('SELECT id, sql FROM system.queries')).filter(([, sql]) => sql === slow).map(([id]) => id);
  const id = await site.locator('.run-id').innerText();
  expect(await listed()).toEqual([id]);
  await site.getByRole('button', { name: 'Cancel' }).click();
  await expect(site.getByRole('heading', { name: 'Cancelled' })).toBeVisible();
  await expect.poll(listed).toEqual([]);
});

test('a result that ends before its last row says why', async ({ site, server }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  await type(site, 'SELECT 1 / (value - 3000000) AS v FROM generate_series(1, 4000000)');
  await site.getByRole('combobox', { name: 'At most' }).selectOption('1000000');
  await site.keyboard.press('Control+Enter');
  // The page takes a million rows only, which end before the one that fails.
  await expect(site.getByText(/^1\u202f000\u202f000 rows, there are more/)).toBeVisible();

  await type(site, 'SELECT 1 / (value - 600000) AS v FROM generate_series(1, 4000000)');
  await site.keyboard.press('Control+Enter');
  await expect(site.getByRole('alert')).toContainText('division by zero');

  const slow = 'SELECT a.value FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b WHERE a.value + b.value < 4';
  await type(site, slow);
  await site.keyboard.press('Control+Enter');
  const id = await site.locator('.run-id').innerText();
  await expect.poll(async () => (await server.sql('SELECT id FROM system.queries')).map(([one]) => one)).toContain(id);
  await server.sql(`KILL QUERY '${id}'`);
  await expect(site.getByRole('alert')).toContainText('the query was killed');
});
