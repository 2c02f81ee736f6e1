/** An import with the route of the server: drop a CSV file, correct a type, query it, export it. */
import { readFileSync } from 'node:fs';
import { drop, expect, expectAccessible, shot, test } from './support';

test('a dropped file becomes a table that is queried and exported', async ({ site, server }) => {
  const rows = Array.from(
    { length: 600 },
    (_, row) => `2026-11-25T10:${String(Math.floor(row / 3) % 60).padStart(2, '0')}:${String(Math.floor(row / 180)).padStart(2, '0')}Z,h${row % 3},${row},note ${row}`,
  );
  await site.goto(`${server.url}/#/data`);
  await expect(site.getByRole('heading', { name: 'Choose a table, or bring data' })).toBeVisible();
  await drop(site, '.data', 'fleet.csv', `time,host,usage,note\n${rows.join('\n')}\n`);
  const columns = site.getByRole('region', { name: 'Columns of the file' });
  await expect(columns.getByLabel('Role of host')).toHaveValue('tag');
  await expect(columns.getByLabel('Type of usage')).toHaveValue('int');
  // A column keeps its row, and the focus, while it is omitted and after.
  const role = columns.getByLabel('Role of usage');
  await role.focus();
  await role.selectOption('omitted');
  await expect(site.getByLabel('Columns to omit')).toHaveValue('usage');
  await expect(site.getByText('CREATE STABLE')).not.toContainText('usage');
  await expect(role).toHaveValue('omitted');
  await expect(role).toBeFocused();
  await expect(columns.getByRole('row').nth(3)).toContainText('usage');
  await role.selectOption('field');
  await expect(site.getByText('CREATE STABLE')).toContainText('usage');
  await expect(role).toHaveValue('field');
  await expect(role).toBeFocused();
  await columns.getByLabel('Type of usage').selectOption('double');
  await columns.getByLabel('Role of note').selectOption('omitted');
  await expect(site.getByLabel('Columns to omit')).toHaveValue('note');
  await expect(site.getByText('CREATE STABLE')).not.toContainText('note');
  await site.getByLabel('Into the database').fill('imported');
  await expect(site.getByRole('button', { name: 'Import', exact: true })).toBeEnabled();
  await expectAccessible(site);
  await shot(site, 'import-preview');
  await site.getByRole('button', { name: 'Import', exact: true }).click();
  await expect(site.getByRole('heading', { name: '600 rows written' })).toBeVisible();
  expect((await server.sql('DESCRIBE imported.fleet')).map(([name, type]) => [name, type])).toEqual([
    ['time', 'TIMESTAMP'],
    ['usage', 'DOUBLE'],
    ['host', 'VARCHAR'],
  ]);

  await site.getByRole('link', { name: 'Query' }).last().click();
  await site.getByRole('button', { name: 'Run', exact: true }).click();
  await expect(site.getByText(/^100 rows/)).toBeVisible();
  await site.getByRole('button', { name: 'Export' }).click();
  const downloaded = site.waitForEvent('download');
  await site.getByRole('button', { name: 'CSV', exact: true }).click();
  const text = readFileSync(await (await downloaded).path(), 'utf8').trim().split('\n');
  expect(text.length).toBe(101);
});
