/** Charts of many rows: windows of whole buckets, few drawn points, and what a chart leaves out. */
import type { Page } from '@playwright/test';
import { drag, expect, shot, test, type } from './support';

const start = 1_767_225_600;
const seconds = 7200;

/** The answer for 10^8 rows of one partition, all with rollups of minutes or none. */
function files(rolled: boolean): object {
  const row = [start * 1e9, (start + seconds) * 1e9, 1e8, rolled ? 1e8 : null, rolled ? 60 : null];
  return { columns: [], data: [row], rows: 1 };
}

/** Holds the statements with all of some texts. Returns what lets them through. */
async function hold(page: Page, ...texts: string[]): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route('**/api/v1/sql', async (route) => {
    const body = route.request().postData() ?? '';
    if (texts.every((text) => body.includes(text))) await released;
    await route.continue();
  });
  return release;
}

test('windows are whole buckets of a dense table, and a zoom reads rows; nothing waits for the number of series', async ({ site, server }) => {
  const lines = Array.from({ length: seconds }, (_, row) => `dense,host=h${row % 2} v=${row % 7} ${start + row}`);
  await server.write('heavy', 's', lines.join('\n'));
  // The test plays the files, and holds the count of series until the chart is drawn.
  let rolled = true;
  let release = () => {};
  const drawn = new Promise<void>((resolve) => (release = resolve));
  await site.route('**/api/v1/sql', async (route) => {
    const body = route.request().postData() ?? '';
    if (body.includes('FROM system.files')) await route.fulfill({ json: files(rolled) });
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

  // Without rollups, windows are as narrow as the pixels.
  rolled = false;
  await site.reload();
  await site.goto(`${server.url}/#/explore?${new URLSearchParams({ db: 'heavy', table: 'dense', field: 'v', range: `${start * 1000}~${(start + seconds) * 1000}` }).toString()}`);
  await expect(site.getByText('Windows of 30s · 240 rows')).toBeVisible();
});

test('a chart is that of its table while another one is loaded, and a late answer brings nobody back', async ({ site, server }) => {
  const tables = ['first', 'second', 'third'];
  await server.write('heavy', 's', tables.map((table) => `${table},host=h of_${table}=1 ${start}`).join('\n'));
  await site.goto(`${server.url}/#/explore`);
  await site.reload();
  const table = (name: string) => site.getByRole('treeitem', { name: new RegExp(`^${name}`) });
  const heading = (name: string) => site.getByRole('heading', { name: `heavy / ${name}` });
  const legend = site.getByRole('region', { name: 'Lines of the chart' });
  await table('first').click();
  await expect(legend).toContainText('of_first');

  const draw = await hold(site, 'FROM heavy.second', 'INTERVAL(');
  await table('second').click();
  await expect(heading('second')).toBeVisible();
  await expect(site.getByText('Loading the chart')).toBeVisible();
  await expect(legend).toHaveCount(0);
  draw();
  await expect(legend).toContainText('of_second');
  await site.unroute('**/api/v1/sql');

  // The answer to a click on the first table arrives after its reader has gone to another page, then to another table.
  const places = [
    { link: '#/query', shown: site.getByRole('textbox', { name: 'Statement' }) },
    { link: '#/explore?db=heavy&table=third', shown: heading('third') },
  ];
  for (const { link, shown } of places) {
    await site.goto(`${server.url}/#/explore?db=heavy&table=second`);
    await expect(legend).toContainText('of_second');
    const answer = await hold(site, 'FROM system.files', "'first'");
    const answered = site.waitForResponse((response) => {
      const body = response.request().postData() ?? '';
      return body.includes('FROM system.files') && body.includes("'first'");
    });
    await table('first').click();
    await site.evaluate((hash) => (location.hash = hash), link);
    await expect(shown).toBeVisible();
    answer();
    await (await answered).finished();
    // Longer than the page needs for an answer.
    await site.waitForTimeout(500);
    await expect(shown).toBeVisible();
    expect(site.url()).toContain(link);
    await site.unroute('**/api/v1/sql');
  }
});

test('a table that the browser comes back to is read again', async ({ site, server }) => {
  await server.write('heavy', 's', `returned,host=h of_returned=1 ${start}`);
  await site.goto(`${server.url}/#/explore`);
  await site.reload();
  await site.getByRole('treeitem', { name: /^returned/ }).click();
  const drawn = site.getByRole('region', { name: 'Lines of the chart' }).getByRole('row').nth(1).getByRole('cell');
  await expect(drawn.last()).toHaveText('1');
  await server.write('heavy', 's', `returned,host=h of_returned=7 ${start}`);
  await site.evaluate(() => (location.hash = '#/explore'));
  await expect(site.getByText('Choose a table')).toBeVisible();
  await site.goBack();
  await expect(drawn.last()).toHaveText('7');
});

test('a click on a table that fails is repeated on request, and its error ends with the next click', async ({ site, server }) => {
  await server.write('heavy', 's', ['good', 'bad'].map((table) => `${table},host=h of_${table}=1 ${start}`).join('\n'));
  await site.goto(`${server.url}/#/explore`);
  await site.reload();
  const table = (name: string) => site.getByRole('treeitem', { name: new RegExp(`^${name}`) });
  const legend = site.getByRole('region', { name: 'Lines of the chart' });
  const error = site.getByRole('alert');
  await site.route('**/api/v1/sql', async (route) => {
    const body = route.request().postData() ?? '';
    if (!body.includes('FROM heavy.bad')) await route.continue();
    else await route.fulfill({ status: 404, json: { error: { kind: 'not_found', message: 'no such table (table: bad)' } } });
  });
  await table('good').click();
  await expect(legend).toContainText('of_good');
  await table('bad').click();
  await expect(error).toContainText('no such table');
  await table('good').click();
  await expect(error).toHaveCount(0);
  await expect(legend).toContainText('of_good');
  await table('bad').click();
  await expect(error).toContainText('no such table');
  await site.unroute('**/api/v1/sql');
  await error.getByRole('button', { name: 'Try again' }).click();
  await expect(legend).toContainText('of_bad');
  await expect(error).toHaveCount(0);
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
  await expect(plot).toHaveAttribute('data-min', '0');
  await expect(plot).toHaveAttribute('data-max', '5000');
  const line = site.getByRole('region', { name: 'Lines of the chart' }).getByRole('row').nth(1);
  // Of all points, not of the drawn ones: sum of value % 101 over all rows, with the one replaced value.
  const values = Array.from({ length: 100_000 }, (_, value) => (value === 31_415 ? 5000 : value % 101));
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  await expect(line.getByRole('cell')).toHaveText(['9', '0', mean.toFixed(3), '5000']);
  await expect(site.getByRole('note')).toHaveCount(0);
  await drag(site, 0.3, 0.5);
  await expect(site.getByRole('button', { name: 'Show all' })).toBeVisible();
  expect(await points()).toBeLessThanOrEqual(5 * width);
  await expect(plot).toHaveAttribute('data-max', '5000');
  // 0.3 % of the points are fewer than the pixels: all of them are drawn.
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
    'Only the first 200\u202f000 of 250\u202f001 rows, and of their 60 lines the first 50, are drawn',
  );
  await shot(site, 'query-chart');
});
