/** First start, sample data, chart, zoom; wrong statement, table, export; slow statement, cancel. */
import { readFileSync } from 'node:fs';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, shot, test, type } from './support';

test.use({ file: 'journey' });

interface Row {
  time: number;
  region: string;
  user: number;
}

/** The rows of line protocol as they were sent: the test's own reader, which shares no code with the console. */
function rowsOf(body: string): Row[] {
  return body.split('\n').map((line) => {
    const [key = '', fields = '', time = ''] = line.split(' ');
    const region = /region=([^,]+)/.exec(key)?.[1] ?? '';
    const user = /usage_user=([\d.]+)/.exec(fields)?.[1] ?? '';
    return { time: Number(time) * 1000, region, user: Number(user) };
  });
}

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000 };

/** The window that the chart says it has, in milliseconds. */
async function windowOf(page: Page): Promise<number> {
  const words = await page.getByText(/Windows of \d+[smh]/).innerText();
  const [, count = '', unit = ''] = /Windows of (\d+)([smh])/.exec(words) ?? [];
  return Number(count) * (units[unit] ?? NaN);
}

interface Numbers {
  names: string[];
  rows: { time: number; values: string[] }[];
}

async function numbersOf(page: Page): Promise<Numbers> {
  await page.getByRole('button', { name: 'As table' }).click();
  const table = page.getByRole('region', { name: 'Numbers of the chart' });
  await expect(table.locator('tbody tr').first()).toBeVisible();
  const numbers = await table.evaluate((element) => ({
    names: [...element.querySelectorAll('thead th')].slice(1).map((cell) => cell.textContent),
    rows: [...element.querySelectorAll<HTMLElement>('tbody tr')].map((row) => ({
      time: Number(row.dataset['time']),
      values: [...row.querySelectorAll<HTMLElement>('td')].map((cell) => cell.dataset['value'] ?? ''),
    })),
  }));
  await page.getByRole('button', { name: 'As table' }).click();
  return numbers;
}

/** Compares each window and region with the average of the rows that were sent. */
function compare(numbers: Numbers, rows: readonly Row[], window: number): void {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const { time, region, user } of rows) {
    const key = `${Math.floor(time / window) * window} ${region}`;
    const entry = sums.get(key) ?? { sum: 0, count: 0 };
    sums.set(key, { sum: entry.sum + user, count: entry.count + 1 });
  }
  expect(numbers.rows.length).toBeGreaterThan(5);
  for (const { time, values } of numbers.rows) {
    values.forEach((value, index) => {
      const entry = sums.get(`${time} ${numbers.names[index] ?? ''}`);
      if (entry === undefined) expect(value).toBe('');
      else expect(Number(value)).toBeCloseTo(entry.sum / entry.count, 6);
    });
  }
}

test('an empty server gets sample data, a chart, and finer data by zooming', async ({ site, server }) => {
  await expect(site.getByRole('heading', { name: 'This server has no data yet' })).toBeVisible();
  await expectAccessible(site);
  await shot(site, 'first-start');
  const rows: Row[] = [];
  site.on('request', (request) => {
    if (request.url().includes('/write?')) rows.push(...rowsOf(request.postData() ?? ''));
  });
  await site.getByRole('button', { name: 'Load sample data' }).click();
  await expect(site.getByText(/Windows of/)).toBeVisible({ timeout: 60_000 });
  await expect(site.getByRole('region', { name: 'Lines of the chart' }).locator('tbody tr')).toHaveCount(3);
  expect(Number((await server.sql('SELECT count(*) FROM sample.cpu'))[0]?.[0])).toBe(rows.length);
  await shot(site, 'explore-dark');
  const wide = await windowOf(site);
  compare(await numbersOf(site), rows, wide);

  const plot = site.locator('.plot .u-over');
  const box = await plot.boundingBox();
  if (!box) throw new Error('the chart has no size');
  await site.mouse.move(box.x + box.width * 0.5, box.y + 60);
  await site.mouse.down();
  await site.mouse.move(box.x + box.width * 0.6, box.y + 80, { steps: 5 });
  await site.mouse.up();
  await expect.poll(() => windowOf(site)).toBeLessThan(wide);
  compare(await numbersOf(site), rows, await windowOf(site));
  await shot(site, 'explore-zoomed');

  // The statement behind the chart gives the same number of rows when it is run in Query.
  const shown = /· ([\d\u202f]+) rows/.exec(await site.getByText(/Windows of/).innerText())?.[1] ?? '';
  await site.getByRole('link', { name: 'Open in Query' }).click();
  await site.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(site.getByText(new RegExp(`^${shown} rows`))).toBeVisible();
  await site.goBack();
  await expect(site.getByRole('button', { name: 'As table' })).toBeVisible();
});

test('an error is marked, the corrected statement fills a table and a file', async ({ site, server }) => {
  const lines = Array.from({ length: 2000 }, (_, row) => `points,device=d${row % 4} value=${row}i ${1_767_225_600 + row}`);
  await server.write('plant', 's', lines.join('\n'));
  await site.getByRole('link', { name: 'Query' }).click();
  await type(site, "SELECT '😀',\n  valu FROM plant.points");
  await site.keyboard.press('Control+Enter');
  await expect(site.getByRole('alert')).toContainText('line 2, column 3');
  await expect(site.locator('.cm-error')).toHaveText('valu');
  await shot(site, 'query-error');

  await type(site, 'SELECT ts, device, value FROM plant.points WHERE value >= ? ORDER BY value');
  await site.getByRole('group', { name: 'Parameters' }).getByRole('textbox').fill('5');
  await site.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(site.getByText(/^1\u202f995 rows/)).toBeVisible();
  const grid = site.getByRole('grid', { name: 'Rows of the result' });
  await expect(grid.getByRole('row').nth(1)).toContainText('2026-01-01 00:00:05.000000000');
  await grid.focus();
  await site.keyboard.press('Control+End');
  const last = grid.locator('[aria-rowindex="1996"]');
  await expect(last).toContainText('2026-01-01 00:33:19.000000000');
  await expect(last).toContainText('d3');
  await shot(site, 'query-table');

  await site.getByRole('button', { name: 'Export' }).click();
  const downloaded = site.waitForEvent('download');
  await site.getByRole('button', { name: 'CSV' }).click();
  const text = readFileSync(await (await downloaded).path(), 'utf8').trim().split('\n');
  expect(text.length).toBe(1996);
  expect(text[1]).toBe('2026-01-01T00:00:05.000000000Z,d1,5');
  expect(text[1995]).toBe('2026-01-01T00:33:19.000000000Z,d3,1999');
  await site.keyboard.press('Escape');

  await site.getByRole('tab', { name: 'Plan' }).click();
  const plan = site.getByRole('region', { name: 'Plan of the query' });
  await expect(plan).toContainText('SeriesScan');
  // The statement runs again on request only.
  await expect(plan).toContainText('without running the statement');
  await plan.getByRole('button', { name: 'Run the statement again and measure it' }).click();
  await expect(plan).toContainText('requests to the store');
  await expect(site.locator('.cm-tooltip-autocomplete')).toHaveCount(0);
  await shot(site, 'query-plan');
});

test('a link carries the statement, several statements have a tab each', async ({ site, server }) => {
  await site.goto(`${server.url}/#/query?${new URLSearchParams({ sql: "SELECT 1 AS a;\nSELECT ';' AS b" }).toString()}`);
  await site.getByRole('button', { name: 'Run all 2' }).click();
  const statements = site.getByRole('group', { name: 'Statements', exact: true });
  await expect(statements.getByRole('button')).toHaveCount(2);
  await expect(site.getByRole('grid').getByRole('columnheader')).toContainText(['#', 'b']);
  await statements.getByRole('button').first().click();
  await expect(site.getByRole('grid').getByRole('columnheader')).toContainText(['#', 'a']);
});

test('a slow statement ends on the server when it is cancelled', async ({ site, server }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  const slow = 'SELECT sum(a.value + b.value) FROM range(0, 100000000) a, range(0, 1000000) b';
  await type(site, slow);
  await site.keyboard.press('Control+Enter');
  const listed = async () => (await server.sql('SELECT sql FROM system.queries')).filter(([sql]) => sql === slow).length;
  await expect.poll(listed).toBe(1);
  await site.getByRole('button', { name: 'Cancel' }).click();
  await expect(site.getByRole('heading', { name: 'Cancelled' })).toBeVisible();
  await expect.poll(listed).toBe(0);
});

test('a table of a million rows shows its last and its middle row', async ({ site }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  await type(site, 'SELECT value, value * 2 AS twice FROM generate_series(1, 1000000) ORDER BY value');
  await site.keyboard.press('Control+Enter');
  await expect(site.getByText(/^1\u202f000\u202f000 rows/)).toBeVisible();
  const grid = site.getByRole('grid', { name: 'Rows of the result' });
  await grid.focus();
  await site.keyboard.press('Control+End');
  await expect(grid.locator('[aria-rowindex="1000001"]').getByRole('gridcell')).toHaveText(['1000000', '2000000']);
  await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
  await expect(grid.locator('[aria-rowindex="1000001"]')).toHaveCount(0);
  // Every row in view has the number that its index says.
  const seen = await grid.locator('.table-body [role=row]').evaluateAll((rows) =>
    rows.map((row) => [Number(row.getAttribute('aria-rowindex')) - 1, Number(row.querySelector('[role=gridcell]')?.textContent)]),
  );
  expect(seen.length).toBeLessThan(60);
  for (const [index, value] of seen) expect(value).toBe(index);
  expect(Math.abs((seen[0]?.[0] ?? 0) - 500_000)).toBeLessThan(2_000);
});
