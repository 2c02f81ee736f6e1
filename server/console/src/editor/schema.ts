/** Columns for completion. */
import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete';

export interface Schema {
  /** Columns by table, by database, as the completion of lang-sql expects it. */
  tables: Record<string, Record<string, string[]>>;
  /** The database of unqualified names. */
  database: string;
}

export function schemaOf(columns: readonly [string, string, string][], database: string): Schema {
  const tables: Record<string, Record<string, string[]>> = {};
  for (const [schema, table, column] of columns) {
    const ofSchema = (tables[schema] ??= {});
    (ofSchema[table] ??= []).push(column);
  }
  return { tables, database };
}

/** The columns of the tables that a text names behind FROM or JOIN. */
export function columnsNamed(text: string, schema: Schema): string[] {
  const names = [...text.matchAll(/\b(?:from|join)\s+`?([\w ]+?)`?(?:\.`?([\w ]+?)`?)?(?=[\s,;)]|$)/gi)];
  const found = names.flatMap(([, first = '', second]) => {
    const [database, table] = second === undefined ? [schema.database, first] : [first, second];
    return schema.tables[database]?.[table] ?? [];
  });
  return [...new Set(found)];
}

export function columnCompletions(schema: Schema) {
  return (context: CompletionContext): CompletionResult | null => {
    const word = context.matchBefore(/\w*/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    if (context.state.sliceDoc(word.from - 1, word.from) === '.') return null;
    const columns = columnsNamed(context.state.doc.toString(), schema);
    return {
      from: word.from,
      options: columns.map((label) => ({ label, type: 'property', boost: 2 })),
      validFor: /^\w*$/,
    };
  };
}
