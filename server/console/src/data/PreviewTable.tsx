/** Columns of a file with their roles and types, which can be corrected, and its first rows. */
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { columnTypes, type ImportOptions, type Preview, type PreviewColumn, type Role } from '../api/import';
import { formatCount } from '../chart/units';
import { DataTable, type TableColumn } from '../widgets/DataTable';
import { corrected, isListable } from './corrections';

interface Props {
  preview: Preview;
  /** The columns that the request of this preview omits. */
  omitted: readonly string[];
  /** Whether another preview is on its way. */
  busy: boolean;
  options: ImportOptions;
  /** Whether roles and types are given by a table or by the format. */
  fixed: boolean;
  onChange: (part: Partial<ImportOptions>) => void;
}

interface Row {
  index: number;
  cells: Preview['rows'][number];
}

const roles: readonly Role[] = ['tag', 'field', 'time', 'omitted'];

const unlistable = 'a name with a comma or outer spaces: its role and type cannot be changed here';

/** First rows that are shown, and columns of a row. */
const mostRows = 20;
const mostColumns = 60;

export function PreviewTable({ preview, omitted, busy, options, fixed, onChange }: Props): JSX.Element {
  const { columns } = preview;
  const kept = columns.filter((column) => column.role !== 'omitted').slice(0, mostColumns);
  // The server lists omitted columns last; here, a column stays in the place of the first preview.
  const places = useRef(new Map<string, number>());
  for (const { name } of columns)
    if (!places.current.has(name)) places.current.set(name, places.current.size);
  const placeOf = (column: PreviewColumn) => places.current.get(column.name) ?? 0;
  const ordered = [...columns].sort((one, other) => placeOf(one) - placeOf(other));
  // A column without any value is omitted by the server.
  const isEmpty = (column: PreviewColumn) => column.role === 'omitted' && !omitted.includes(column.name);
  const isFixed = (column: PreviewColumn) =>
    fixed || !roles.includes(column.role) || isEmpty(column) || !isListable(column.name);
  return (
    <div class="preview" aria-busy={busy}>
      <h2>
        Columns <span class="hint">of the first {formatCount(preview.rows_read)} rows</span>
      </h2>
      <DataTable
        label="Columns of the file"
        rows={ordered.slice(0, 4096)}
        keyOf={(column) => column.name}
        empty="The file has no columns."
        columns={[
          { name: 'Column', cell: (column) => column.name },
          {
            name: 'Role',
            cell: (column) =>
              isFixed(column) ? (
                column.role
              ) : (
                <Select
                  label={`Role of ${column.name}`}
                  value={column.role}
                  options={roles}
                  onChange={(role) => onChange(corrected(columns, options, column.name, role as Role))}
                />
              ),
          },
          {
            name: 'Type',
            cell: (column) =>
              isFixed(column) || column.role === 'omitted' ? (
                column.type
              ) : (
                <Select
                  label={`Type of ${column.name}`}
                  value={column.type}
                  options={typesFor(column)}
                  onChange={(type) => onChange({ types: new Map(options.types).set(column.name, type) })}
                />
              ),
          },
          {
            name: 'Values',
            number: true,
            cell: (column) => (column.distinct === null ? '' : `${formatCount(column.distinct)} different`),
          },
          { name: 'Null', number: true, cell: (column) => (column.nulls ? formatCount(column.nulls) : '') },
          { name: 'Examples', cell: (column) => <span class="clip">{column.examples.join(', ')}</span> },
          {
            name: 'Note',
            cell: (column) =>
              [column.note, !fixed && !isListable(column.name) && unlistable].filter(Boolean).join('; '),
          },
        ]}
      />
      {!fixed && (
        <p class="hint">
          Tags identify a series: a column of hosts or devices is a tag. Rows with the same tags and time
          replace each other. Omitted columns are not imported.
        </p>
      )}
      <h2>First rows</h2>
      <DataTable
        label="First rows of the file"
        rows={preview.rows.slice(0, mostRows).map((cells, index) => ({ cells, index }))}
        keyOf={(row) => String(row.index)}
        empty="The file has no rows."
        columns={kept.map((column, index): TableColumn<Row> => ({
          name: column.name,
          number: column.type === 'int' || column.type === 'double',
          cell: (row) => String(row.cells[index] ?? ''),
        }))}
        foot={columns.length > mostColumns && `The first ${mostColumns} columns.`}
      />
      {preview.statement !== null && (
        <>
          <h2>Statement that creates the table</h2>
          <pre class="statement" tabIndex={0}>
            {preview.statement}
          </pre>
        </>
      )}
    </div>
  );
}

function typesFor(column: PreviewColumn): readonly string[] {
  const known: readonly string[] = columnTypes;
  return known.includes(column.type) ? known : [column.type, ...known];
}

function Select(props: {
  label: string;
  value: string;
  options: readonly string[];
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <select
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value)}
    >
      {props.options.map((name) => (
        <option key={name} value={name} selected={name === props.value}>
          {name}
        </option>
      ))}
    </select>
  );
}
