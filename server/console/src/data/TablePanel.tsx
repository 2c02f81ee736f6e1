/** One table: its files, its log, its columns, and deletes. */
import type { JSX } from 'preact';
import { linkTo, change, route } from '../shell/route';
import { Icon } from '../widgets/icons';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Tabs } from '../widgets/Tabs';
import { quoteTable } from '../catalog/names';
import type { Data } from './DataPage';
import { DeletePanel } from './DeletePanel';
import { FilesPanel } from './FilesPanel';
import { LogPanel } from './LogPanel';
import { SchemaPanel } from './SchemaPanel';
import { tableInfo } from './table';

export const tabs = [
  ['files', 'Files'],
  ['log', 'Log'],
  ['schema', 'Schema'],
  ['delete', 'Delete'],
] as const;

type Tab = (typeof tabs)[number][0];

export function TablePanel(props: { database: string; table: string; data: Data }): JSX.Element {
  const { database, table, data } = props;
  const tab: Tab = tabs.find(([name]) => name === route.value.parameters.get('tab'))?.[0] ?? 'files';
  const loaded = useLoaded((signal) => tableInfo(database, table, signal), `${database}\n${table}`, {
    version: data.version,
  });
  if (loaded.error) return <ErrorNotice error={loaded.error} retry={loaded.reload} />;
  const info = loaded.value;
  if (!info) return <Loading text={`Loading ${table}`} />;
  return (
    <Tabs
      label={`Table ${table}`}
      value={tab}
      tabs={tabs}
      onChange={(next) => change({ tab: next })}
      aside={
        <>
          <a class="button" href={linkTo('explore', new URLSearchParams({ db: database, table }))}>
            <Icon name="chart" /> Chart
          </a>
          <a
            class="button"
            href={linkTo(
              'query',
              new URLSearchParams({ sql: `SELECT * FROM ${quoteTable(database, table)} LIMIT 100` }),
            )}
          >
            <Icon name="query" /> Query
          </a>
        </>
      }
    >
      {tab === 'files' && <FilesPanel info={info} data={data} />}
      {tab === 'log' && <LogPanel info={info} data={data} />}
      {tab === 'schema' && <SchemaPanel info={info} data={data} />}
      {tab === 'delete' && <DeletePanel info={info} data={data} />}
    </Tabs>
  );
}
