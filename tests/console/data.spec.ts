/** The page Data: files, compaction, definitions, deletes; imports with a preview that the test plays. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Page, Request } from '@playwright/test';
import { command, drop, expect, expectAccessible, shot, test } from './support';

const start = 1_767_225_600;

/** Lines of `rooms` rooms, one a minute each. */
function lines(table: string, minutes: number, rooms = 3): string {
  return Array.from(
    { length: minutes * rooms },
    (_, row) => `${table},room=r${row % rooms} temperature=${20 + (row % 7)} ${start + Math.floor(row / rooms) * 60}`,
  ).join('\n');
}

async function open(page: Page, url: string, table: string, tab: string): Promise<void> {
  await page.goto(`${url}/#/data?${new URLSearchParams({ db: 'plant', table, tab }).toString()}`);
  await expect(page.getByRole('heading', { name: `plant / ${table}` })).toBeVisible();
}

test('files are drawn, listed and merged; the log is folded', async ({ site, server }) => {
  await server.write('plant', 's', lines('merged', 100));
  await open(site, server.url, 'merged', 'log');
  await expect(site.getByRole('region', { name: 'Log segments' }).getByRole('row')).toHaveCount(2);
  await command(site, 'data: fold now');
  // The log may have rows of other tests of this server, too.
  await expect(site.getByRole('status').filter({ hasText: /^Folded \d+ rows of \d+ log segments?; wrote/ })).toBeVisible();
  await expect(site.getByText('All rows of this table are in files.')).toBeVisible();

  // Late rows make a second file of the same time; a merge makes one of both.
  await server.write('plant', 's', lines('merged', 50));
  await site.getByRole('tab', { name: 'Files' }).click();
  await site.getByRole('button', { name: 'Fold now' }).click();
  await expect(site.getByText(/^2 files, 450 rows, [\d.]+ KiB$/)).toBeVisible();
  await expect(site.getByRole('img', { name: /^2 files of below 16 KiB, at most 2 at once/ }).locator('rect')).toHaveCount(2);
  const partitions = site.getByRole('region', { name: 'Partitions' });
  await expect(partitions.getByRole('row').nth(1)).toContainText('2026-01-01 01:39:00');
  await expectAccessible(site);
  await shot(site, 'data-files');
  await partitions.getByRole('button').first().click();
  await expect(site.getByText(/in the partition of 20/)).toBeVisible();
  expect(site.url()).toContain('partition=');
  await site.getByRole('button', { name: 'Show all partitions' }).click();

  await site.getByRole('button', { name: 'Merge everything' }).click();
  await site.getByRole('dialog').getByRole('button', { name: 'Merge everything' }).click();
  // Tables of other tests of this server may be merged, too.
  await expect(site.getByRole('status').filter({ hasText: /replaced \d+ rows by newer ones/ })).toBeVisible();
  await expect(site.getByText(/^1 file, 300 rows, [\d.]+ KiB$/)).toBeVisible();
});

test('a table is created, changed and dropped; the statement is shown first', async ({ site, server }) => {
  await server.write('plant', 's', lines('other', 1));
  await site.goto(`${server.url}/#/data`);
  await site.getByRole('button', { name: 'New table' }).click();
  const dialog = site.getByRole('dialog', { name: 'Create a table' });
  await dialog.getByLabel('Database').fill('plant');
  await dialog.getByLabel('Table', { exact: true }).fill('Machines');
  await dialog.getByLabel('Field 1', { exact: true }).fill('load');
  await dialog.getByRole('button', { name: 'Add a tag' }).click();
  await dialog.getByLabel('Tag 1', { exact: true }).fill('order');
  await expect(dialog.getByLabel('Statement')).toHaveText(
    'CREATE STABLE plant.`Machines` (ts TIMESTAMP, load DOUBLE) TAGS (`order` VARCHAR(64))',
  );
  await expectAccessible(site);
  await shot(site, 'data-new-table');
  await dialog.getByRole('button', { name: 'Create the table' }).click();
  const columns = site.getByRole('region', { name: 'Columns' });
  await expect(columns.getByRole('row')).toHaveCount(4);

  await site.getByRole('button', { name: 'Add a field' }).click();
  await site.getByLabel('Name', { exact: true }).fill('speed');
  await site.getByLabel('Type of name').fill('INT');
  await site.getByRole('dialog').getByRole('button', { name: 'Add the field' }).click();
  await site.getByRole('button', { name: 'Add a tag' }).click();
  await site.getByLabel('Name', { exact: true }).fill('site');
  await site.getByRole('dialog').getByRole('button', { name: 'Add the tag' }).click();
  await expect(columns.getByRole('row')).toHaveCount(6);
  await expectAccessible(site);
  await shot(site, 'data-schema');

  await site.getByRole('button', { name: 'Rename speed' }).click();
  await site.getByLabel('New name').fill('velocity');
  await expect(site.getByRole('dialog').getByLabel('Statement')).toHaveText('ALTER STABLE plant.`Machines` RENAME COLUMN speed TO velocity');
  await site.getByRole('dialog').getByRole('button', { name: 'Rename the field' }).click();
  await expect(columns.getByRole('row').filter({ hasText: 'velocity' })).toContainText('INT');

  await site.getByRole('button', { name: 'Change the retention' }).click();
  await site.getByLabel('Keep rows for').fill('30d');
  await expect(site.getByText('0 rows are older than this now.')).toBeVisible();
  await site.getByLabel('Type Machines to confirm').fill('Machines');
  await site.getByRole('dialog').getByRole('button', { name: 'Change the retention' }).click();
  await expect(site.getByText('Rows are kept for 30d.')).toBeVisible();
  expect((await server.sql('SHOW CREATE TABLE plant.`Machines`'))[0]?.[1]).toContain('KEEP 30d');

  await site.getByRole('tab', { name: 'Delete' }).click();
  await site.getByRole('button', { name: 'Drop the table' }).click();
  const confirm = site.getByRole('dialog').getByRole('button', { name: 'Drop the table' });
  await expect(confirm).toBeDisabled();
  await site.getByLabel('Type Machines to confirm').fill('Machines');
  await confirm.click();
  await expect(site.getByRole('heading', { name: 'Choose a table, or bring data' })).toBeVisible();
  await expect(site.getByRole('treeitem', { name: 'Machines' })).toHaveCount(0);
});

test('a database gets another retention, and is dropped with its typed name', async ({ site, server }) => {
  await server.write('doomed', 's', lines('climate', 1));
  await site.goto(`${server.url}/#/data`);
  const row = site.getByRole('region', { name: 'List of databases' }).getByRole('row').filter({ hasText: 'doomed' });
  await expect(row.getByRole('cell').nth(1)).toHaveText('1');
  await row.getByRole('button', { name: 'Change the retention of doomed' }).click();
  const dialog = site.getByRole('dialog');
  await dialog.getByLabel('Keep rows for').fill('400d');
  await expect(dialog.getByLabel('Statement')).toHaveText('ALTER DATABASE doomed KEEP 400d');
  await expect(dialog.getByRole('status')).toContainText('This does not change tables that have their own retention.');
  const change = dialog.getByRole('button', { name: 'Change the retention' });
  await expect(change).toBeDisabled();
  await dialog.getByLabel('Type doomed to confirm').fill('doomed');
  await expectAccessible(site);
  await change.click();
  await expect(row).toContainText('400d');
  expect((await server.sql('SHOW CREATE DATABASE doomed'))[0]?.[1]).toContain('KEEP 400d');

  await row.getByRole('button', { name: 'Drop doomed' }).click();
  const confirm = dialog.getByRole('button', { name: 'Drop the database' });
  await expect(dialog).toContainText('Its 1 table and all their rows are deleted.');
  await expect(confirm).toBeDisabled();
  await dialog.getByLabel('Type doomed to confirm').fill('doomed');
  await confirm.click();
  await expect(row).toHaveCount(0);
  expect((await server.sql('SHOW DATABASES')).flat()).not.toContain('doomed');
});

test('rows are counted before they are deleted', async ({ site, server }) => {
  await server.write('plant', 's', lines('deleted', 10));
  await open(site, server.url, 'deleted', 'delete');
  await expect(site.getByRole('button', { name: 'Delete', exact: true })).toBeDisabled();
  await site.getByLabel('From', { exact: true }).fill('2026-01-01 00:05');
  await site.getByRole('button', { name: 'Condition on a tag' }).click();
  await site.getByLabel('Value', { exact: true }).fill('r1');
  await expect(site.getByLabel('Statement of the count')).toHaveText(
    "SELECT count(*) FROM plant.deleted WHERE ts >= '2026-01-01T00:05:00.000Z' AND room = 'r1'",
  );
  // The link has the conditions.
  await site.reload();
  await expect(site.getByLabel('Value', { exact: true })).toHaveValue('r1');
  await site.getByRole('button', { name: 'Count the rows' }).click();
  await expect(site.getByText('Fitting: 5 rows.')).toBeVisible();
  await expectAccessible(site);
  await shot(site, 'data-delete');
  await site.getByRole('button', { name: 'Delete 5 rows' }).click();
  await site.getByRole('dialog').getByRole('button', { name: 'Delete 5 rows' }).click();
  await expect(site.getByText('Deleted 5 rows.')).toBeVisible();
  expect((await server.sql('SELECT count(*) FROM plant.deleted'))[0]?.[0]).toBe(25);
});

const preview = {
  columns: [
    { name: 'time', role: 'time', type: 'timestamp', distinct: 2, nulls: 0, examples: ['2026-11-25 10:00:00'], note: null },
    { name: 'host', role: 'tag', type: 'text', distinct: 2, nulls: 0, examples: ['a', 'b'], note: null },
    { name: 'usage', role: 'field', type: 'int', distinct: 2, nulls: 0, examples: ['12', '7'], note: null },
    { name: 'empty', role: 'omitted', type: 'text', distinct: 0, nulls: 2, examples: [], note: 'no values' },
  ],
  rows: [
    ['2026-11-25T10:00:00Z', 'a', 12],
    ['2026-11-25T10:00:00Z', 'b', 7],
  ],
  rows_read: 2,
  rows_wrong: 0,
  table_exists: false,
  statement: 'CREATE STABLE `fleet` (`time` TIMESTAMP, `usage` BIGINT) TAGS (`host` NCHAR)',
  notices: [],
  repeats: null,
};

const csv = 'time,host,usage,empty\n2026-11-25 10:00:00,a,12,\n2026-11-25 10:00:00,b,7,\n';

test('a dropped file is previewed, corrected and imported', async ({ site, server }) => {
  const asked: URLSearchParams[] = [];
  const answer = (request: Request): [number, object] => {
    const parameters = new URL(request.url()).searchParams;
    asked.push(parameters);
    if (!parameters.has('preview')) return [200, { written: 2, replaced: 0, refused: 0, notices: [] }];
    if (parameters.get('types') === 'usage:timestamp') {
      return [400, { error: { kind: 'invalid', message: 'no time (column: usage, value: 12, line: 2, column: 4)' } }];
    }
    return [200, preview];
  };
  await site.route('**/api/v1/import?*', async (route) => {
    const [status, body] = answer(route.request());
    await route.fulfill({ status, json: body });
  });
  await site.goto(`${server.url}/#/data`);
  await expect(site.getByRole('heading', { name: 'Choose a table, or bring data' })).toBeVisible();
  await drop(site, '.data', 'fleet.csv', csv);
  const columns = site.getByRole('region', { name: 'Columns of the file' });
  await expect(columns.getByRole('row')).toHaveCount(5);
  await expect(site.getByRole('region', { name: 'First rows of the file' }).getByRole('row')).toHaveCount(3);
  await expect(site.getByText('times as text without a zone are UTC')).toBeVisible();
  expect(asked.at(-1)?.get('table')).toBe('fleet');
  expect(asked.at(-1)?.has('tags')).toBe(false);

  await columns.getByLabel('Type of usage').selectOption('timestamp');
  await expect(site.getByRole('alert')).toContainText('line 2, column 4');
  await expect(site.getByRole('button', { name: 'Import', exact: true })).toBeDisabled();
  await columns.getByLabel('Type of usage').selectOption('double');
  await expect(site.getByRole('button', { name: 'Import', exact: true })).toBeEnabled();
  await columns.getByLabel('Role of host').selectOption('field');
  await expect.poll(() => asked.at(-1)?.get('tags')).toBe('');
  await site.getByLabel('Into the database').fill('plant');
  await expect.poll(() => asked.at(-1)?.get('db')).toBe('plant');
  await expect(site.getByRole('button', { name: 'Import', exact: true })).toBeEnabled();
  await expectAccessible(site);
  await shot(site, 'data-import');
  await site.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(site.getByRole('heading', { name: '2 rows written' })).toBeFocused();
  expect(Object.fromEntries(asked.at(-1) ?? [])).toEqual({
    db: 'plant',
    table: 'fleet',
    format: 'csv',
    precision: 'ns',
    tags: '',
    types: 'usage:double',
  });
  await expectAccessible(site);
  await expect(site.getByRole('link', { name: 'Chart' })).toHaveAttribute('href', '#/explore?db=plant&table=fleet');
});

test('the root is checked; a damaged file is named with its key', async ({ server, site }) => {
  await server.write('checked', 's', lines('climate', 50));
  expect((await fetch(`${server.url}/api/v1/compact?until=fold`, { method: 'POST' })).status).toBe(200);
  await site.goto(`${server.url}/#/data`);
  const panel = site.getByRole('region', { name: 'Check', exact: true });
  await panel.getByRole('button', { name: 'Check everything' }).click();
  await expect(panel.getByRole('status')).toContainText(/^No faults in [\d\u202f]+ versions?, /);
  await expectAccessible(site);

  const [row] = await server.sql("SELECT path FROM system.files WHERE database = 'checked'");
  const key = String(row?.[0]);
  const file = path.join(server.root, key);
  const whole = readFileSync(file);
  const damaged = Buffer.from(whole);
  damaged[damaged.length >> 1] = (damaged[damaged.length >> 1] ?? 0) ^ 1;
  writeFileSync(file, damaged);
  await panel.getByRole('button', { name: 'Check everything' }).click();
  await expect(panel.getByRole('status')).toContainText(/^[\d\u202f]+ faults? in /);
  await expect(panel.getByRole('region', { name: 'Faults' })).toContainText(key);
  await expect(panel).toContainText('docs/operations/corrupt-object.md');
  await expectAccessible(site);
  await shot(site, 'data-check');
  writeFileSync(file, whole);
});
