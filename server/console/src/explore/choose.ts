/** The chart that a table is first shown with. */
import { isNumeric } from '../catalog/names';
import { rangeFor } from '../chart/range';
import { go } from '../shell/route';
import type { Facts } from './data';
import { initial, toParameters, type View } from './state';

export function update(view: View, replace = false): void {
  go('explore', toParameters(view), replace);
}

/** A chart of a table: its first numeric field, over the time that has data. */
export function choose(database: string, table: string, { columns, extent }: Facts): View {
  const fields = columns.filter((column) => column.role === 'field');
  const field = fields.find((column) => isNumeric(column.type)) ?? fields[0];
  return {
    ...initial,
    database,
    table,
    fields: field ? [field.name] : [],
    range: extent === null ? initial.range : rangeFor(extent, Date.now()),
  };
}
