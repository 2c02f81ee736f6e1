/** What a corrected role of a column changes in a request. */
import type { ImportOptions, PreviewColumn, Role } from '../api/import';

/** The tags and the time column of the request after the role of one column has changed. */
export function corrected(
  columns: readonly PreviewColumn[],
  name: string,
  role: Role,
): Pick<ImportOptions, 'tags'> & Partial<Pick<ImportOptions, 'time'>> {
  const tags = columns
    .filter((column) => (column.name === name ? role === 'tag' : column.role === 'tag'))
    .map((column) => column.name);
  return role === 'time' ? { tags, time: name } : { tags };
}
