/** The chart that a table is first shown with. */
import { extent } from '../catalog/catalog';
import { isNumeric } from '../catalog/names';
import { rangeFor } from '../chart/range';
import { go } from '../shell/route';
import { columnsOf } from './data';
import { initial, toParameters, type View } from './state';

export function update(view: View, replace = false): void {
  go('explore', toParameters(view), replace);
}

/** A chart of a table: its first numeric field, over the time that has data. */
export async function choose(database: string, table: string): Promise<View> {
  const columns = await columnsOf(database, table);
  const time = columns.find((column) => column.role === 'time');
  const found = await extent(database, table, time?.name ?? 'ts');
  const fields = columns.filter((column) => column.role === 'field');
  const field = fields.find((column) => isNumeric(column.type)) ?? fields[0];
  return {
    ...initial,
    database,
    table,
    fields: field ? [field.name] : [],
    range: found === null ? initial.range : rangeFor(found, Date.now()),
  };
}
