/** The page Query: editor, parameters, history, results. */
import type { JSX } from 'preact';
import { lazy, Suspense } from 'preact/compat';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { offsetOf } from '../api/errors';
import type { Parameter } from '../api/sql';
import { allColumns } from '../catalog/catalog';
import { quoteName, quoteTable } from '../catalog/names';
import { Tree } from '../catalog/Tree';
import * as tree from '../catalog/tree';
import type { TreeNode } from '../catalog/tree';
import { pieceAt, split, type Piece } from '../editor/lexer';
import { schemaOf } from '../editor/schema';
import { useCommands } from '../shell/commands';
import { go, linkTo, route } from '../shell/route';
import { Side } from '../shell/Side';
import { Choice } from '../widgets/Choice';
import { CopyButton } from '../widgets/CopyButton';
import { Icon } from '../widgets/icons';
import { Menu } from '../widgets/Menu';
import { HistoryList } from './HistoryList';
import { Parameters, parameterOf } from './Parameters';
import { Results } from './Results';
import { cancel, runAll, running, runs } from './run';
import { askToSave } from './saved';
import { SavedControls } from './SavedControls';

const Editor = lazy(async () => (await import('../editor/Editor')).Editor);

/** Rows of a result that the browser keeps. */
const limits = [
  ['1000', '1 000 rows'],
  ['100000', '100 000 rows'],
  ['1000000', '1 000 000 rows'],
] as const;

const draft = 'tidelake.draft';

function insertion(node: TreeNode): string {
  switch (node.kind) {
    case 'database':
      return quoteName(node.database);
    case 'table':
      return `SELECT * FROM ${quoteTable(node.database, node.table)} LIMIT 100`;
    case 'field':
    case 'tag':
      return quoteName(node.column.name);
    case 'value':
      return `'${node.value.replaceAll("'", "''")}'`;
    case 'series':
    case 'group':
      return quoteName(node.label);
  }
}

export function QueryPage(): JSX.Element {
  const shared = route.value.parameters;
  const [text, setText] = useState(shared.get('sql') ?? sessionStorage.getItem(draft) ?? '');
  const [given, setGiven] = useState({ text });
  const own = useRef(shared.get('sql'));
  const [database, setDatabase] = useState(shared.get('db') ?? '');
  const [limit, setLimit] = useState<(typeof limits)[number][0]>('1000000');
  const [selection, setSelection] = useState({ from: 0, to: 0 });
  const [values, setValues] = useState<string[]>([]);
  const [columns, setColumns] = useState<[string, string, string][]>([]);

  const replace = (next: string) => {
    setText(next);
    setGiven({ text: next });
  };

  // Another link than that of the last run replaces the text.
  useEffect(() => {
    const sql = shared.get('sql');
    if (sql !== null && sql !== own.current) {
      own.current = sql;
      replace(sql);
    }
    const db = shared.get('db');
    if (db !== null) setDatabase(db);
  }, [shared]);
  useEffect(() => sessionStorage.setItem(draft, text), [text]);
  // Completion is a help: without it the editor works as well.
  useEffect(() => {
    allColumns().then(setColumns, () => undefined);
  }, []);

  const pieces = useMemo(() => split(text), [text]);
  const schema = useMemo(() => schemaOf(columns, database), [columns, database]);
  const selected = selection.to > selection.from ? split(text.slice(selection.from, selection.to)) : [];
  const piece = pieceAt(pieces, selection.from);
  const one: Piece[] =
    selected.length > 0
      ? selected.map((part) => ({ ...part, from: part.from + selection.from, to: part.to + selection.from }))
      : piece
        ? [piece]
        : [];
  const count = Math.max(
    0,
    ...[one, pieces].map((list) => list.reduce((sum, part) => sum + part.parameters, 0)),
  );

  const run = (all: boolean) => {
    const chosen = all ? pieces : one;
    if (chosen.length === 0) return;
    const sql = text.trim();
    own.current = sql;
    go('query', new URLSearchParams({ sql, ...(database === '' ? {} : { db: database }) }), true);
    const before = all
      ? 0
      : pieces
          .filter((part) => part.to <= (one[0]?.from ?? 0))
          .reduce((sum, part) => sum + part.parameters, 0);
    const params: Parameter[] = Array.from({ length: count }, (_, index) =>
      parameterOf(values[index] ?? ''),
    ).slice(before);
    void runAll(chosen, database, params, Number(limit));
  };
  const current = { run };
  const [holder] = useState({ current });
  holder.current = current;
  useCommands(() => [
    { name: 'Run the statement', keys: 'Ctrl Enter', run: () => holder.current.run(false) },
    { name: 'Run all statements', keys: 'Ctrl Shift Enter', run: () => holder.current.run(true) },
    { name: 'Cancel the statement', run: cancel },
  ]);

  const failed = runs.value.find((one) => one.error?.parsed.position);
  const place = failed?.error?.parsed.position ?? null;
  const error = failed && place ? failed.offset + offsetOf(failed.statement.sql, place) : null;
  const names = tree.loaded.value.get(tree.root)?.nodes.map((node) => node.label) ?? [];

  return (
    <div class="page">
      <Side label="Catalog">
        <Tree
          onChoose={(node) => {
            const added = insertion(node);
            const at = Math.min(selection.from, text.length);
            const fresh = node.kind === 'table';
            replace(
              fresh
                ? [text.trim().replace(/;$/, ''), added].filter((part) => part !== '').join(';\n')
                : text.slice(0, at) + added + text.slice(selection.to),
            );
          }}
        />
      </Side>
      <div class="content query">
        <div class="query-bar" role="group" aria-label="Statement">
          {running.value ? (
            <button type="button" class="button danger" onClick={cancel}>
              <Icon name="stop" /> Cancel
            </button>
          ) : (
            <button
              type="button"
              class="button primary"
              disabled={pieces.length === 0}
              title="Ctrl Enter"
              onClick={() => run(false)}
            >
              <Icon name="play" /> Run
            </button>
          )}
          {pieces.length > 1 && (
            <button
              type="button"
              class="button"
              title="Ctrl Shift Enter"
              disabled={running.value}
              onClick={() => run(true)}
            >
              Run all {pieces.length}
            </button>
          )}
          <Choice
            label="Database"
            value={database}
            options={[['', 'None'], ...names.map((name): [string, string] => [name, name])]}
            onChange={setDatabase}
          />
          <Choice label="At most" value={limit} options={limits} onChange={setLimit} />
          <span class="grow" />
          <SavedControls
            text={text}
            database={database}
            onOpen={(query) => {
              replace(query.statement);
              setDatabase(query.database ?? '');
            }}
          />
          <Menu label="History" text="History" icon="history" align="end">
            {(close) => (
              <HistoryList
                onChoose={(entry) => {
                  replace(entry.sql);
                  setDatabase(entry.database);
                  close();
                }}
              />
            )}
          </Menu>
          <CopyButton
            label="Copy link"
            icon="link"
            text={() =>
              location.href.replace(/#.*$/, '') +
              linkTo(
                'query',
                new URLSearchParams({ sql: text, ...(database === '' ? {} : { db: database }) }),
              )
            }
          />
        </div>
        <Suspense fallback={<div class="editor" />}>
          <Editor
            given={given}
            schema={schema}
            error={error}
            onChange={setText}
            onSelect={setSelection}
            onRun={run}
            onSave={() => askToSave(text, database)}
          />
        </Suspense>
        {count > 0 && <Parameters count={count} values={values} onChange={setValues} />}
        <Results />
      </div>
    </div>
  );
}
