/** Names and literals of SQL. */

const reserved = new Set(
  (
    'all and any as asc between by case cast cross database desc distinct else end except exists expires false fill for from full ' +
    'group having if in inner insert intersect interval into is join left like limit not null offset on or order outer ' +
    'partition right select session set sliding stable table tags then timestamp to true union using values when where with window'
  ).split(' '),
);

/** A name as it must be written in a statement: in backticks unless it is plain. */
export function quoteName(name: string): string {
  if (/^[a-z_][a-z0-9_]*$/.test(name) && !reserved.has(name)) return name;
  return `\`${name.replaceAll('`', '``')}\``;
}

export function quoteTable(database: string, table: string): string {
  return `${quoteName(database)}.${quoteName(table)}`;
}

export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** A pattern of LIKE that matches texts which contain `text`. */
export function containsPattern(text: string): string {
  return quoteText(`%${text.replaceAll(/[\\%_]/g, '\\$&')}%`);
}

const numeric =
  /^(TINYINT|SMALLINT|INT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL)\b|^(TINYINT|SMALLINT|INT|BIGINT) UNSIGNED$/i;

export function isNumeric(type: string): boolean {
  return numeric.test(type);
}
