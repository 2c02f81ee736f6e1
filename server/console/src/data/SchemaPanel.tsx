/** Columns, tags and retention of a table, and statements that change them. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { rows } from '../api/sql';
import type { Column } from '../catalog/catalog';
import { quoteName } from '../catalog/names';
import * as tree from '../catalog/tree';
import { useCommands } from '../shell/commands';
import { CopyButton } from '../widgets/CopyButton';
import { DataTable } from '../widgets/DataTable';
import { Icon } from '../widgets/icons';
import { RowButton } from '../widgets/RowButton';
import type { Data } from './DataPage';
import { ColumnDialog, RenameDialog } from './dialogs';
import { KeepDialog } from './KeepDialog';
import { countStatement, dropColumn, keepTable } from './statements';
import type { TableInfo } from './table';

const roles: Record<Column['role'], string> = { time: 'time', field: 'field', tag: 'tag' };

export function SchemaPanel({ info, data }: { info: TableInfo; data: Data }): JSX.Element {
  const { database, table } = info;
  const [open, setOpen] = useState<'COLUMN' | 'TAG' | 'keep' | null>(null);
  const [renamed, setRenamed] = useState<Column | null>(null);
  const time = info.columns.find((column) => column.role === 'time')?.name ?? 'ts';
  const done = () => {
    data.changed();
    void tree.reload();
  };
  const drop = (column: Column) =>
    data.ask({
      title: `Drop the ${roles[column.role]} ${column.name}?`,
      statement: dropColumn(database, table, column),
      action: 'Drop the column',
      danger: true,
      typed: column.name,
      onDone: done,
      children: (
        <p>
          Its values cannot be read any more, also if a column with the same name is added later. Rows and
          other columns stay.
        </p>
      ),
    });
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
                <span class="actions">
                  <RowButton
                    text="Rename"
                    label={`Rename ${column.name}`}
                    onClick={() => setRenamed(column)}
                  />
                  <RowButton text="Drop" label={`Drop ${column.name}`} danger onClick={() => drop(column)} />
                </span>
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
      {open === 'keep' && (
        <KeepDialog
          name={table}
          keep={info.keep}
          statement={(keep) => keepTable(database, table, keep)}
          count={async (bound, signal) => {
            const sql = countStatement(database, table, ` WHERE ${quoteName(time)} < '${bound}'`);
            return Number((await rows({ sql }, signal))[0]?.[0] ?? 0);
          }}
          onDone={done}
          onClose={() => setOpen(null)}
        />
      )}
      {renamed && (
        <RenameDialog
          database={database}
          table={table}
          column={renamed}
          onDone={done}
          onClose={() => setRenamed(null)}
        />
      )}
    </div>
  );
}
