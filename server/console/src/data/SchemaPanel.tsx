/** Columns, tags and retention of a table, and statements that change them. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { rows } from '../api/sql';
import type { Column } from '../catalog/catalog';
import { quoteName } from '../catalog/names';
import * as tree from '../catalog/tree';
import { useCommands } from '../shell/commands';
import { formatCount } from '../chart/units';
import { CopyButton } from '../widgets/CopyButton';
import { DataTable } from '../widgets/DataTable';
import { Field } from '../widgets/Fields';
import { Icon } from '../widgets/icons';
import { useLoaded } from '../widgets/loaded';
import { StatementDialog } from '../widgets/StatementDialog';
import type { Data } from './DataPage';
import { ColumnDialog } from './dialogs';
import { countStatement, dropColumn, isKeep, keepTable } from './statements';
import { durationOf, type TableInfo } from './table';

const roles: Record<Column['role'], string> = { time: 'time', field: 'field', tag: 'tag' };

export function SchemaPanel({ info, data }: { info: TableInfo; data: Data }): JSX.Element {
  const { database, table } = info;
  const [open, setOpen] = useState<'COLUMN' | 'TAG' | 'keep' | null>(null);
  const done = () => {
    data.changed();
    void tree.reload();
  };
  useCommands(() => [
    { name: 'Data: add a field to the table', run: () => setOpen('COLUMN') },
    { name: 'Data: add a tag to the table', run: () => setOpen('TAG') },
    { name: 'Data: change the retention of the table', run: () => setOpen('keep') },
  ]);
  return (
    <div class="data-panel">
      <div class="actions">
        <button type="button" class="button" onClick={() => setOpen('COLUMN')}>
          <Icon name="plus" /> Add a field
        </button>
        <button type="button" class="button" onClick={() => setOpen('TAG')}>
          <Icon name="plus" /> Add a tag
        </button>
        <button type="button" class="button" onClick={() => setOpen('keep')}>
          <Icon name="clock" /> Change the retention
        </button>
        <span class="hint">
          Rows are kept for {info.keep}
          {info.ownKeep ? '' : ', as in the database'}.
        </span>
      </div>
      <DataTable
        label="Columns"
        rows={info.columns}
        keyOf={(column) => column.name}
        empty="No columns."
        columns={[
          { name: 'Name', cell: (column) => column.name },
          { name: 'Type', cell: (column) => column.type },
          { name: 'Role', cell: (column) => roles[column.role] },
          {
            name: 'Change',
            cell: (column) =>
              column.role !== 'time' && (
                <button
                  type="button"
                  class="button danger"
                  aria-label={`Drop ${column.name}`}
                  onClick={() =>
                    data.ask({
                      title: `Drop the ${roles[column.role]} ${column.name}?`,
                      statement: dropColumn(database, table, column),
                      action: 'Drop the column',
                      danger: true,
                      typed: column.name,
                      onDone: done,
                      children: (
                        <p>
                          Its values cannot be read any more, also if a column with the same name is added
                          later. Rows and other columns stay.
                        </p>
                      ),
                    })
                  }
                >
                  Drop
                </button>
              ),
          },
        ]}
      />
      <section class="created" aria-label="Statement that creates the table">
        <div class="actions">
          <h2>Statement that creates the table</h2>
          <CopyButton label="Copy" text={() => info.statement} />
        </div>
        <pre class="statement" tabIndex={0}>
          {info.statement}
        </pre>
      </section>
      {(open === 'COLUMN' || open === 'TAG') && (
        <ColumnDialog
          database={database}
          table={table}
          kind={open}
          onDone={done}
          onClose={() => setOpen(null)}
        />
      )}
      {open === 'keep' && <KeepDialog info={info} onDone={done} onClose={() => setOpen(null)} />}
    </div>
  );
}

function KeepDialog(props: { info: TableInfo; onDone: () => void; onClose: () => void }): JSX.Element {
  const { info, onDone, onClose } = props;
  const { database, table } = info;
  const [keep, setKeep] = useState(info.keep);
  const length = isKeep(keep) && keep !== '' ? durationOf(keep) : 0;
  const shorter = length > 0 && length < durationOf(info.keep);
  const time = info.columns.find((column) => column.role === 'time')?.name ?? 'ts';
  const older = useLoaded(async (signal) => {
    if (!shorter) return 0;
    const bound = new Date(Date.now() - length).toISOString();
    const sql = countStatement(database, table, ` WHERE ${quoteName(time)} < '${bound}'`);
    return Number((await rows({ sql }, signal))[0]?.[0] ?? 0);
  }, keep);
  return (
    <StatementDialog
      title={`Retention of ${table}`}
      statement={keepTable(database, table, keep)}
      action="Change the retention"
      danger={shorter}
      {...(shorter ? { typed: table } : {})}
      onDone={onDone}
      onClose={onClose}
    >
      <Field
        label="Keep rows for"
        value={keep}
        onChange={setKeep}
        hint="Days, or with a unit: 30d, 720h; 1d to 365000d, and not shorter than a partition"
      />
      {shorter && (
        <p role="status">
          {older.error
            ? `The number of rows older than this is not known: ${older.error.message}.`
            : older.value === null
              ? 'Counting the rows that are older…'
              : `${formatCount(older.value)} rows are older than this now.`}{' '}
          The server deletes partitions whose rows are all older. This cannot be undone.
        </p>
      )}
    </StatementDialog>
  );
}
