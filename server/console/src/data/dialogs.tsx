/** Forms that make statements which define databases, tables and columns. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Column } from '../catalog/catalog';
import * as tree from '../catalog/tree';
import { Choice } from '../widgets/Choice';
import { Field } from '../widgets/Fields';
import { StatementDialog } from '../widgets/StatementDialog';
import {
  addColumn,
  createDatabase,
  createTable,
  renameColumn,
  types,
  type Definition,
  type NewTable,
  type Precision,
} from './statements';

const keepHint = 'Days, or with a unit: 30d, 720h';

const precisions: readonly (readonly [Precision, string])[] = [
  ['ns', 'Nanoseconds'],
  ['us', 'Microseconds'],
  ['ms', 'Milliseconds'],
];

/** Names of databases for lists of suggestions. */
export function databaseNames(): string[] {
  return tree.loaded.value.get(tree.root)?.nodes.map((node) => node.label) ?? [];
}

export function DatabaseDialog(props: { onDone: () => void; onClose: () => void }): JSX.Element {
  const [name, setName] = useState('');
  const [precision, setPrecision] = useState<Precision>('ns');
  const [keep, setKeep] = useState('');
  return (
    <StatementDialog
      title="Create a database"
      statement={createDatabase(name, precision, keep)}
      action="Create the database"
      {...props}
    >
      <Field label="Name" value={name} onChange={setName} />
      <Choice label="Precision of times" value={precision} options={precisions} onChange={setPrecision} />
      <p class="hint">The precision never changes. Line protocol creates databases with nanoseconds.</p>
      <Field label="Keep rows for" value={keep} onChange={setKeep} hint={`${keepHint}; empty: 3650d`} />
    </StatementDialog>
  );
}

export function TableDialog(props: {
  database: string;
  onDone: (made: { db: string; table: string }) => void;
  onClose: () => void;
}): JSX.Element {
  const names = databaseNames();
  const [made, setMade] = useState<NewTable>({
    database: props.database || (names[0] ?? ''),
    table: '',
    time: 'ts',
    fields: [{ name: '', type: 'DOUBLE' }],
    tags: [],
    keep: '',
  });
  const put = (part: Partial<NewTable>) => setMade({ ...made, ...part });
  return (
    <StatementDialog
      title="Create a table"
      statement={createTable(made)}
      action="Create the table"
      onDone={() => props.onDone({ db: made.database, table: made.table })}
      onClose={props.onClose}
    >
      <div class="form-row">
        <Field
          label="Database"
          value={made.database}
          suggestions={names}
          onChange={(database) => put({ database })}
        />
        <Field label="Table" value={made.table} onChange={(table) => put({ table })} />
        <Field label="Time column" value={made.time} onChange={(time) => put({ time })} />
      </div>
      <Definitions
        name="Field"
        hint="What is measured"
        all={made.fields}
        onChange={(fields) => put({ fields })}
      />
      <Definitions
        name="Tag"
        hint="What identifies a series, such as a host or a device"
        all={made.tags}
        onChange={(tags) => put({ tags })}
      />
      <Field
        label="Keep rows for"
        value={made.keep}
        onChange={(keep) => put({ keep })}
        hint={`${keepHint}; empty: as in the database`}
      />
    </StatementDialog>
  );
}

/** Columns of the form; further ones can be added to the table later. */
const mostDefinitions = 64;

function Definitions(props: {
  name: string;
  hint: string;
  all: readonly Definition[];
  onChange: (all: readonly Definition[]) => void;
}): JSX.Element {
  const { name, hint, all, onChange } = props;
  return (
    <fieldset class="definitions">
      <legend>
        {name}s <span class="hint">{hint}</span>
      </legend>
      {all.map((definition, index) => (
        <div class="form-row" key={index}>
          <DefinitionFields
            label={`${name} ${index + 1}`}
            definition={definition}
            onChange={(next) => onChange(all.with(index, next))}
          />
          <button
            type="button"
            class="button"
            aria-label={`Remove ${name.toLowerCase()} ${index + 1}`}
            onClick={() => onChange(all.filter((_, other) => other !== index))}
          >
            Remove
          </button>
        </div>
      ))}
      <button
        type="button"
        class="button"
        disabled={all.length >= mostDefinitions}
        onClick={() => onChange([...all, { name: '', type: name === 'Tag' ? 'VARCHAR(64)' : 'DOUBLE' }])}
      >
        Add a {name.toLowerCase()}
      </button>
    </fieldset>
  );
}

function DefinitionFields(props: {
  label: string;
  definition: Definition;
  onChange: (definition: Definition) => void;
}): JSX.Element {
  const { label, definition, onChange } = props;
  return (
    <>
      <Field label={label} value={definition.name} onChange={(name) => onChange({ ...definition, name })} />
      <Field
        label={`Type of ${label.toLowerCase()}`}
        value={definition.type}
        suggestions={types}
        onChange={(type) => onChange({ ...definition, type })}
      />
    </>
  );
}

export function ColumnDialog(props: {
  database: string;
  table: string;
  kind: 'COLUMN' | 'TAG';
  onDone: () => void;
  onClose: () => void;
}): JSX.Element {
  const { database, table, kind } = props;
  const name = kind === 'TAG' ? 'tag' : 'field';
  const [definition, setDefinition] = useState<Definition>({
    name: '',
    type: kind === 'TAG' ? 'VARCHAR(64)' : 'DOUBLE',
  });
  return (
    <StatementDialog
      title={`Add a ${name} to ${table}`}
      statement={addColumn(database, table, kind, definition)}
      action={`Add the ${name}`}
      onDone={props.onDone}
      onClose={props.onClose}
    >
      <div class="form-row">
        <DefinitionFields label="Name" definition={definition} onChange={setDefinition} />
      </div>
      <p class="hint">Rows that exist have NULL in it.</p>
    </StatementDialog>
  );
}

export function RenameDialog(props: {
  database: string;
  table: string;
  column: Column;
  onDone: () => void;
  onClose: () => void;
}): JSX.Element {
  const { database, table, column } = props;
  const [name, setName] = useState(column.name);
  return (
    <StatementDialog
      title={`Rename the ${column.role} ${column.name} of ${table}`}
      statement={renameColumn(database, table, column, name)}
      action={`Rename the ${column.role}`}
      onDone={props.onDone}
      onClose={props.onClose}
    >
      <Field label="New name" value={name} onChange={setName} />
      <p class="hint">
        Its values stay. Clients that use the old name get an error, or write a new column of that name.
      </p>
    </StatementDialog>
  );
}
