/** Rows of a table that are in the log and not in files yet. */
import type { JSX } from 'preact';
import { formatInstant, zone } from '../chart/instant';
import { counted, formatBytes, formatCount } from '../chart/units';
import { DataTable } from '../widgets/DataTable';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Compaction } from './Compaction';
import type { Data } from './DataPage';
import { listed, segments } from './files';
import type { TableInfo } from './table';

/** The log changes all the time. */
const interval = 5000;

export function LogPanel({ info, data }: { info: TableInfo; data: Data }): JSX.Element {
  const { database, table, ticks } = info;
  const loaded = useLoaded((signal) => segments({ database, table, ticks, partition: null }, signal), 'log', {
    every: interval,
    version: data.version,
  });
  const found = loaded.value;
  const sum = found?.items.reduce((total, segment) => total + segment.rows, 0) ?? 0;
  return (
    <div class="data-panel">
      <Compaction onDone={data.changed} />
      {loaded.error && <ErrorNotice error={loaded.error} retry={loaded.reload} />}
      {!found && !loaded.error && <Loading text="Loading the log" />}
      {found && (
        <>
          <p>
            {counted(sum, 'row')} in {found.more && 'the newest '}
            {counted(found.items.length, 'segment')}. Queries read them from the log; a fold writes them into
            files.
          </p>
          <DataTable
            label="Log segments"
            rows={found.items}
            keyOf={(segment) => segment.path}
            empty="All rows of this table are in files."
            foot={found.more && `The newest ${listed} segments; Query lists all from system.log.`}
            columns={[
              {
                name: 'Written',
                cell: (segment) => (segment.time === null ? '–' : formatInstant(segment.time, zone.value)),
              },
              { name: 'Rows', number: true, cell: (segment) => formatCount(segment.rows) },
              { name: 'Series', number: true, cell: (segment) => formatCount(segment.series) },
              { name: 'Bytes of the segment', number: true, cell: (segment) => formatBytes(segment.bytes) },
              {
                name: 'State',
                cell: (segment) =>
                  segment.fault === null ? (
                    'readable'
                  ) : (
                    <>
                      {segment.fault} (see <code>docs/operations/corrupt-object.md</code>)
                    </>
                  ),
              },
              { name: 'Object', cell: (segment) => <code>{segment.path}</code> },
            ]}
          />
        </>
      )}
    </div>
  );
}
