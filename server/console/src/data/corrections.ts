/** What a corrected role of a column changes in a request. */
import type { ImportOptions, PreviewColumn, Role } from '../api/import';

/** Whether a list of names in a request can have this name: they are separated by commas and trimmed. */
export function isListable(name: string): boolean {
  return name !== '' && name === name.trim() && !name.includes(',');
}

/** Names from text with commas between them. */
export function namesOf(text: string): string[] {
  return [...new Set(text.split(',').map((name) => name.trim()))].filter((name) => name !== '');
}

/** The tags, the time column and the omitted columns of the request after the role of one column has changed. */
export function corrected(
  columns: readonly PreviewColumn[],
  options: Pick<ImportOptions, 'time' | 'omitted'>,
  name: string,
  role: Role,
): Pick<ImportOptions, 'tags' | 'time' | 'omitted'> {
  const tags = columns
    .filter((column) => (column.name === name ? role === 'tag' : column.role === 'tag'))
    .map((column) => column.name)
    .filter(isListable);
  const others = options.omitted.filter((other) => other !== name);
  return {
    tags,
    time: role === 'time' ? name : role === 'omitted' && options.time === name ? null : options.time,
    omitted: role === 'omitted' ? [...others, name] : others,
  };
}
