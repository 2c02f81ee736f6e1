/** The databases with their settings; administrators change the retention of one, or drop it. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { session } from '../api/session';
import * as tree from '../catalog/tree';
import { counted, formatCount } from '../chart/units';
import { DataTable, type TableColumn } from '../widgets/DataTable';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { RowButton } from '../widgets/RowButton';
import type { Data } from './DataPage';
import { databasesInfo, type DatabaseInfo } from './database';
import { KeepDialog } from './KeepDialog';
import { dropDatabase, keepDatabase } from './statements';

export function Databases({ data }: { data: Data }): JSX.Element | null {
  const [kept, setKept] = useState<DatabaseInfo | null>(null);
  const { value, error, reload } = useLoaded(databasesInfo, 'databases', { version: data.version });
  if (error) return <ErrorNotice error={error} retry={reload} />;
  if (!value) return <Loading text="Loading the databases" />;
  if (value.items.length === 0) return null;
  const admin = session.value?.admin ?? false;
  const drop = (database: DatabaseInfo) =>
    data.ask({
      title: `Drop the database ${database.name}?`,
      statement: dropDatabase(database.name),
      action: 'Drop the database',
      danger: true,
      typed: database.name,
      onDone: () => {
        data.changed();
        void tree.reload();
      },
      children: (
        <p>
          {database.tables === 0
            ? 'It has no tables.'
            : `Its ${counted(database.tables, 'table')} and all their rows are deleted.`}{' '}
          Rights on it end. This cannot be undone.
        </p>
      ),
    });
  const change: TableColumn<DatabaseInfo> = {
    name: 'Change',
    cell: (database) => (
      <span class="actions">
        <RowButton
          text="Retention"
          label={`Change the retention of ${database.name}`}
          onClick={() => setKept(database)}
        />
        <RowButton text="Drop" label={`Drop ${database.name}`} danger onClick={() => drop(database)} />
      </span>
    ),
  };
  return (
    <section aria-label="Databases">
      <h2>Databases</h2>
      <DataTable
        label="List of databases"
        rows={value.items}
        keyOf={(database) => database.name}
        empty="No databases."
        foot={value.more && `The first ${value.items.length} databases.`}
        columns={[
          { name: 'Name', cell: (database) => database.name },
          { name: 'Tables', number: true, cell: (database) => formatCount(database.tables) },
          { name: 'Precision', cell: (database) => database.precision },
          { name: 'Partition', cell: (database) => database.partition },
          { name: 'Rows are kept for', cell: (database) => database.keep },
          ...(admin ? [change] : []),
        ]}
      />
      {kept && (
        <KeepDialog
          name={kept.name}
          keep={kept.keep}
          statement={(keep) => keepDatabase(kept.name, keep)}
          count={null}
          onDone={data.changed}
          onClose={() => setKept(null)}
        />
      )}
    </section>
  );
}
