/** The data files of a table as a picture and as a list of partitions. */
import type { JSX } from 'preact';
import { formatInstant, zone } from '../chart/instant';
import { counted, formatBytes, formatCount, formatDuration } from '../chart/units';
import { change, route } from '../shell/route';
import { DataTable } from '../widgets/DataTable';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Compaction } from './Compaction';
import type { Data } from './DataPage';
import { bandsOf, boxes, levelBytes, listed, partitions, totals, type Place } from './files';
import { Picture } from './Picture';
import type { TableInfo } from './table';

async function load(place: Place, signal: AbortSignal) {
  const all = await totals(place, signal);
  const [found, list] = await Promise.all([boxes(place, all, signal), partitions(place, signal)]);
  return { totals: all, bands: bandsOf(found), boxes: found.length, partitions: list };
}

export function FilesPanel({ info, data }: { info: TableInfo; data: Data }): JSX.Element {
  const { database, table, ticks } = info;
  const text = route.value.parameters.get('partition');
  const chosen = text !== null && /^-?\d+$/.test(text) ? Number(text) : null;
  const place: Place = { database, table, ticks, partition: chosen };
  const loaded = useLoaded((signal) => load(place, signal), text ?? '', { version: data.version });
  const where = zone.value;
  const found = loaded.value;
  return (
    <div class="data-panel">
      <Compaction onDone={data.changed} />
      {loaded.error && <ErrorNotice error={loaded.error} retry={loaded.reload} />}
      {!found && !loaded.error && <Loading text="Loading files" />}
      {found && (
        <>
          <div class="actions">
            <span>
              {counted(found.totals.files, 'file')}, {counted(found.totals.rows, 'row')},{' '}
              {formatBytes(found.totals.bytes)}
              {chosen !== null && ` in the partition of ${partitionName(info, chosen, where)}`}
            </span>
            {chosen !== null && (
              <button type="button" class="button" onClick={() => change({ partition: '' })}>
                Show all partitions
              </button>
            )}
            <button type="button" class="button" disabled={loaded.busy} onClick={loaded.reload}>
              Load again
            </button>
          </div>
          {found.totals.first !== null && found.totals.last !== null && (
            <Picture
              bands={found.bands}
              from={found.totals.first}
              to={found.totals.last}
              partition={info.partition}
              joined={found.totals.files > found.boxes}
            />
          )}
          <DataTable
            label="Partitions"
            rows={found.partitions.items}
            keyOf={(partition) => String(partition.number)}
            empty="No data files yet: rows are in the log until they are folded. Fold now writes them."
            foot={
              found.partitions.more && `The newest ${listed} partitions; Query lists all from system.files.`
            }
            columns={[
              {
                name: 'Partition',
                cell: (partition) => (
                  <button
                    type="button"
                    class="button"
                    aria-pressed={partition.number === chosen}
                    onClick={() =>
                      change({ partition: partition.number === chosen ? '' : String(partition.number) })
                    }
                  >
                    {partitionName(info, partition.number, where)}
                  </button>
                ),
              },
              { name: 'Files', number: true, cell: (partition) => formatCount(partition.files) },
              { name: 'Rows', number: true, cell: (partition) => formatCount(partition.rows) },
              { name: 'Bytes', number: true, cell: (partition) => formatBytes(partition.bytes) },
              {
                name: 'Bytes a row',
                number: true,
                cell: (partition) => (partition.bytes / Math.max(1, partition.rows)).toFixed(1),
              },
              { name: 'Oldest row', cell: (partition) => formatInstant(Math.floor(partition.first), where) },
              { name: 'Newest row', cell: (partition) => formatInstant(Math.floor(partition.last), where) },
            ]}
          />
          <p class="hint">
            A partition has the rows of {formatDuration(info.partition / 1000, 3)}. Levels are by size: below{' '}
            {levelBytes.map((bytes) => formatBytes(bytes)).join(', ')}, and larger. Queries read files that
            overlap in time together, until a merge makes one run of them.
          </p>
        </>
      )}
    </div>
  );
}

function partitionName(info: TableInfo, number: number, where: 'utc' | 'local'): string {
  return info.partition === 0
    ? String(number)
    : formatInstant(number * info.partition, where).replace(/ 00:00:00$/, '');
}
