/** Every page in both themes and on a narrow screen: accessible, and without a horizontal scroll bar. */
import { expect, expectAccessible, expectNoSideScroll, shot, test, type } from './support';

const pages = ['explore', 'chart', 'query', 'data', 'files', 'schema', 'delete', 'import', 'access'] as const;

test.beforeEach(async ({ server }) => {
  const lines = Array.from({ length: 600 }, (_, row) => `climate,room=r${row % 3} temperature=${20 + (row % 7)} ${1_767_225_600 + row * 60}`);
  await server.write('home', 's', lines.join('\n'));
});

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1360, 375]) {
    test(`pages in the ${colorScheme} theme at ${width} px`, async ({ site, server }) => {
      await site.emulateMedia({ colorScheme });
      await site.setViewportSize({ width, height: width === 375 ? 760 : 860 });
      for (const page of pages) {
        if (page === 'explore') {
          await site.goto(`${server.url}/#/explore`);
          await expect(site.getByRole('heading', { name: 'Choose a table' })).toBeVisible();
        } else if (page === 'chart') {
          const link = new URLSearchParams({ db: 'home', table: 'climate', by: 'room' });
          await site.goto(`${server.url}/#/explore?${link.toString()}`);
          await expect(site.getByRole('region', { name: 'Lines of the chart' })).toBeVisible();
        } else if (page === 'data' || page === 'import') {
          await site.goto(`${server.url}/#/data${page === 'import' ? '?tab=import' : ''}`);
          await expect(
            site.getByRole('heading', { name: page === 'data' ? 'Choose a table, or bring data' : 'Drop a file here' }),
          ).toBeVisible();
        } else if (page === 'access') {
          await site.goto(`${server.url}/#/access`);
          await expect(site.getByRole('note')).toBeVisible();
          await expect(site.getByText('No users yet.')).toBeVisible();
        } else if (page !== 'query') {
          await site.goto(`${server.url}/#/data?db=home&table=climate&tab=${page}`);
          await expect(site.getByRole('heading', { name: 'home / climate' })).toBeVisible();
          const seen = {
            files: site.getByRole('region', { name: 'Partitions' }),
            schema: site.getByRole('region', { name: 'Columns' }),
            delete: site.getByRole('heading', { name: 'Delete rows' }),
          }[page];
          await expect(seen).toBeVisible();
        } else {
          await site.goto(`${server.url}/#/query`);
          await type(site, 'SELECT * FROM home.climate');
          await site.keyboard.press('Control+Enter');
          await expect(site.getByRole('grid')).toBeVisible();
        }
        await expectAccessible(site);
        await shot(site, `${page}-${colorScheme}-${width}`);
        await expectNoSideScroll(site);
      }
      await site.keyboard.press('Control+k');
      await expect(site.getByRole('dialog', { name: 'Commands' })).toBeVisible();
      await expectAccessible(site);
      await site.keyboard.type('go to explore');
      await site.keyboard.press('Enter');
      await expect(site.getByRole('link', { name: 'Explore' })).toHaveAttribute('aria-current', 'page');
    });
  }
}
