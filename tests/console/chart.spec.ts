/** Charts of many rows: windows of whole buckets, few drawn points, and what a chart leaves out. */
import type { Page } from '@playwright/test';
import { expect, shot, test, type } from './support';

const start = 1_767_225_600;
const seconds = 7200;

async function drag(page: Page, from: number, to: number): Promise<void> {
  const box = await page.locator('.plot .u-over').boundingBox();
  if (!box) throw new Error('the chart has no size');
  await page.mouse.move(box.x + box.width * from, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 80, { steps: 5 });
  await page.mouse.up();
}

test('windows are whole buckets of a dense table, and a zoom reads rows; nothing waits for the number of series', async ({ site, server }) => {
  const lines = Array.from({ length: seconds }, (_, row) => `dense,host=h${row % 2} v=${row % 7} ${start + row}`);
  await server.write('heavy', 's', lines.join('\n'));
  // The test plays the files of 10^8 rows with rollups of minutes, and holds the count of series until the chart is drawn.
  let release = () => {};
  const drawn = new Promise<void>((resolve) => (release = resolve));
  await site.route('**/api/v1/sql', async (route) => {
    const body = route.request().postData() ?? '';
    if (body.includes('FROM system.files')) await route.fulfill({ json: { columns: [], data: [[100_000_000, 60]], rows: 1 } });
    else if (body.includes('SELECT count(*) FROM information_schema.ins_tables')) await drawn.then(() => route.continue());
    else await route.continue();
  });
  await site.goto(`${server.url}/#/explore`);
  await site.reload();
  await site.getByRole('treeitem', { name: /^dense/ }).click();
  await expect(site.getByText('Windows of 1m · 120 rows')).toBeVisible();
  const series = site.getByRole('treeitem', { name: /^Series/ });
  await expect(series).not.toContainText('2');
  release();
  await expect(series).toContainText('2');
  await drag(site, 0.5, 0.6);
  await expect(site.getByText(/Windows of [25]s/)).toBeVisible();
  await site.unroute('**/api/v1/sql');

  // Without rollups, windows are as narrow as the pixels.
  await site.reload();
  await site.goto(`${server.url}/#/explore?${new URLSearchParams({ db: 'heavy', table: 'dense', field: 'v', range: `${start * 1000}~${(start + seconds) * 1000}` }).toString()}`);
  await expect(site.getByText('Windows of 30s · 240 rows')).toBeVisible();
});

test('a chart of 100 000 points draws a few for each pixel, and all extremes', async ({ site }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  await type(
    site,
    'SELECT to_timestamp_millis(1767225600000 + value * 10) AS t, CASE WHEN value = 31415 THEN 5000 ELSE value % 101 END AS v ' +
      'FROM generate_series(0, 99999) ORDER BY value',
  );
  await site.keyboard.press('Control+Enter');
  await expect(site.getByText(/^100\u202f000 rows/)).toBeVisible();
  await site.getByRole('tab', { name: 'Chart' }).click();
  const plot = site.getByRole('img', { name: 'Chart of the result' });
  const points = async () => Number(await plot.getAttribute('data-points'));
  const width = (await plot.boundingBox())?.width ?? 0;
  await expect.poll(points).toBeGreaterThan(width);
  expect(await points()).toBeLessThanOrEqual(5 * width);
  const line = site.getByRole('region', { name: 'Lines of the chart' }).getByRole('row').nth(1);
  // Of all points, not of the drawn ones: sum of value % 101 over all rows, with the one replaced value.
  const values = Array.from({ length: 100_000 }, (_, value) => (value === 31_415 ? 5000 : value % 101));
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  await expect(line).toHaveText(new RegExp(`^v.*0.*${mean.toFixed(2)}.*5 ?[k0]`));
  await expect(site.getByRole('note')).toHaveCount(0);
  await drag(site, 0.3, 0.5);
  await expect(site.getByRole('button', { name: 'Show all' })).toBeVisible();
  expect(await points()).toBeLessThanOrEqual(5 * width);
  // 0.4 % of the points are fewer than the pixels: all of them are drawn.
  for (let step = 0; step < 6; step++) {
    await plot.focus();
    await site.keyboard.press('+');
  }
  await expect.poll(points).toBeLessThan(500);
  expect(await points()).toBeGreaterThan(200);
});

test('a chart says which rows and lines it leaves out', async ({ site }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  await type(
    site,
    "SELECT to_timestamp_millis(value * 1000) AS t, concat('k', value % 60) AS k, value AS v FROM generate_series(0, 250000) ORDER BY value",
  );
  await site.keyboard.press('Control+Enter');
  await expect(site.getByText(/^250\u202f001 rows/)).toBeVisible();
  await site.getByRole('tab', { name: 'Chart' }).click();
  await expect(site.getByRole('note')).toHaveText(
    'Only the first 200\u202f000 of 250\u202f001 rows and the first 50 of 60 lines are drawn',
  );
  await shot(site, 'query-chart');
});
