/** The servers that use the root, not only the one that answers. */
import type { JSX } from 'preact';
import { rows } from '../api/sql';
import { formatInstant, zone } from '../chart/instant';
import { formatBytes, formatCount } from '../chart/units';
import { DataTable, type TableColumn } from '../widgets/DataTable';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { stopped } from './stream';

/** Each answer costs requests to the store. */
const interval = 30_000;
const listed = 100;

interface Member {
  id: string;
  role: string;
  /** Empty for a function, which does not announce itself. */
  place: string;
  version: string;
  started: number;
  seen: number;
  segments: number;
  bytes: number;
}

async function nodes(signal: AbortSignal): Promise<Member[]> {
  const columns = 'id, role, address, host, version, started, last_seen, segments, bytes';
  const sql = `SELECT ${columns} FROM system.nodes ORDER BY segments DESC, id LIMIT ${listed + 1}`;
  const data = await rows({ sql }, signal);
  return data.map(([id, role, address, host, version, started, seen, segments, bytes]) => ({
    id: String(id),
    role: String(role),
    place: address === null ? '' : `${String(address)} on ${String(host)}`,
    version: String(version ?? ''),
    started: Date.parse(String(started)),
    seen: Date.parse(String(seen)),
    segments: Number(segments),
    bytes: Number(bytes),
  }));
}

const columns: TableColumn<Member>[] = [
  { name: 'Server', cell: (node) => node.place || <code>{node.id}</code> },
  { name: 'Role', cell: (node) => node.role },
  { name: 'Version', cell: (node) => node.version || '–' },
  { name: 'Started', cell: (node) => formatInstant(node.started, zone.value) },
  { name: 'Last seen', cell: (node) => formatInstant(node.seen, zone.value) },
  { name: 'Segments not folded', number: true, cell: (node) => formatCount(node.segments) },
  { name: 'Their bytes', number: true, cell: (node) => formatBytes(node.bytes) },
];

export function Nodes(): JSX.Element {
  const loaded = useLoaded(nodes, 'nodes', { every: stopped.value ? 0 : interval });
  const found = loaded.value;
  return (
    <div class="data-panel">
      {loaded.error && <ErrorNotice error={loaded.error} retry={loaded.reload} />}
      {!found && !loaded.error && <Loading text="Loading the nodes" />}
      {found && (
        <DataTable
          label="Nodes"
          rows={found.slice(0, listed)}
          keyOf={(node) => node.id}
          empty="No server has announced itself in this root."
          foot={
            found.length > listed
              ? `The first ${listed} nodes; Query lists all from system.nodes.`
              : 'A server that writes updates Last seen at most once a minute; an idle one every 12 hours.'
          }
          columns={columns}
        />
      )}
    </div>
  );
}
