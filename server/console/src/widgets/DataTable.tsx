/** A small table in a region of its own, which scrolls where it is too wide. */
import type { ComponentChildren, JSX } from 'preact';

export interface TableColumn<T> {
  name: string;
  number?: boolean;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  columns: readonly TableColumn<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** What the region shows without rows. */
  empty: ComponentChildren;
  /** What is below the rows, such as how to see more. */
  foot?: ComponentChildren;
}

export function DataTable<T>({ label, columns, rows, keyOf, empty, foot }: Props<T>): JSX.Element {
  return (
    <div class="data-table" role="region" aria-label={label} tabIndex={0}>
      {rows.length === 0 ? (
        <div class="data-table-note">{empty}</div>
      ) : (
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.name} scope="col" class={column.number ? 'number' : undefined}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={keyOf(row)}>
                {columns.map((column) => (
                  <td key={column.name} class={column.number ? 'number' : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {foot !== undefined && foot !== null && foot !== false && <div class="data-table-note">{foot}</div>}
    </div>
  );
}
