/** The page Data: files and definitions of tables, deletes, and the import of files. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { session } from '../api/session';
import { Tree } from '../catalog/Tree';
import * as tree from '../catalog/tree';
import { SampleButton } from '../explore/SampleButton';
import { useCommands } from '../shell/commands';
import { change, go, route } from '../shell/route';
import { Side } from '../shell/Side';
import { Icon } from '../widgets/icons';
import { Empty } from '../widgets/Notice';
import { StatementDialog, type Question } from '../widgets/StatementDialog';
import { CheckPanel } from './CheckPanel';
import { Compaction } from './Compaction';
import './data.css';
import { Databases } from './Databases';
import { DatabaseDialog, TableDialog } from './dialogs';
import { ImportPanel } from './ImportPanel';
import { TablePanel, tabs } from './TablePanel';

/** What is open above the page. */
export type Open = Question | 'table' | 'database';

export interface Data {
  /** Increases when what is shown must be loaded again. */
  version: number;
  changed: () => void;
  ask: (open: Open) => void;
}

export function DataPage(): JSX.Element {
  const [open, setOpen] = useState<Open | null>(null);
  const [chosen, setChosen] = useState<{ file: File; number: number } | null>(null);
  const [version, setVersion] = useState(0);
  const [dragged, setDragged] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const { parameters } = route.value;
  const database = parameters.get('db') ?? '';
  const table = parameters.get('table') ?? '';
  const importing = parameters.get('tab') === 'import';
  const data: Data = { version, changed: () => setVersion((now) => now + 1), ask: setOpen };

  const take = (taken: File | undefined) => {
    if (!taken) return;
    setChosen((old) => ({ file: taken, number: (old?.number ?? 0) + 1 }));
    change({ tab: 'import' });
  };
  const pick = () => chooser.current?.click();

  useCommands(() => [
    { name: 'Data: import a file', run: pick },
    { name: 'Data: create a table', run: () => setOpen('table') },
    { name: 'Data: create a database', run: () => setOpen('database') },
    ...tabs.map(([name, title]) => ({
      name: `Data: show ${title.toLowerCase()} of the table`,
      run: () => change({ tab: name }),
    })),
  ]);

  return (
    <div class="page">
      <Side label="Catalog">
        <Tree
          chosen={{ database, table }}
          onChoose={(node) => {
            if (node.kind === 'database' || node.kind === 'group') return;
            void tree.open(node);
            go('data', new URLSearchParams({ db: node.database, table: node.table }));
          }}
        />
      </Side>
      <div
        class={dragged ? 'content data dropping' : 'content data'}
        onDragOver={(event) => {
          if (!event.dataTransfer?.types.includes('Files')) return;
          event.preventDefault();
          setDragged(true);
        }}
        onDragLeave={(event) => {
          if (event.target === event.currentTarget) setDragged(false);
        }}
        onDrop={(event) => {
          event.preventDefault();
          setDragged(false);
          take(event.dataTransfer?.files[0]);
        }}
      >
        <div class="explore-head">
          <h1>
            {table === '' || importing ? (
              importing ? (
                'Import a file'
              ) : (
                'Data'
              )
            ) : (
              <>
                <span>{database}</span> {table}
              </>
            )}
          </h1>
          <div class="actions">
            <button type="button" class="button" onClick={() => setOpen('database')}>
              <Icon name="plus" /> New database
            </button>
            <button type="button" class="button" onClick={() => setOpen('table')}>
              <Icon name="plus" /> New table
            </button>
            <button type="button" class="button primary" onClick={pick}>
              <Icon name="upload" /> Import a file
            </button>
            <input
              ref={chooser}
              type="file"
              hidden
              aria-label="File to import"
              accept=".csv,.ndjson,.jsonl,.json,.lp,.line,.txt,.parquet,.gz,.zst"
              onChange={(event) => {
                take(event.currentTarget.files?.[0]);
                event.currentTarget.value = '';
              }}
            />
          </div>
        </div>
        {importing ? (
          <ImportPanel key={chosen?.number ?? 0} file={chosen?.file ?? null} pick={pick} />
        ) : table === '' ? (
          <Start data={data} />
        ) : (
          <TablePanel key={`${database}\n${table}`} database={database} table={table} data={data} />
        )}
      </div>
      {open === 'table' && (
        <TableDialog
          database={database}
          onDone={(made) => {
            void tree.reload();
            go('data', new URLSearchParams({ ...made, tab: 'schema' }));
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {open === 'database' && (
        <DatabaseDialog
          onDone={() => {
            data.changed();
            void tree.reload();
          }}
          onClose={() => setOpen(null)}
        />
      )}
      {open !== null && typeof open === 'object' && (
        <StatementDialog {...open} onClose={() => setOpen(null)} />
      )}
    </div>
  );
}

function Start({ data }: { data: Data }): JSX.Element {
  const current = session.value;
  return (
    <>
      <Empty title="Choose a table, or bring data">
        <p>
          A click on a table of the catalog shows its files, its log and its columns. Drop a CSV, NDJSON, line
          protocol or Parquet file anywhere here to import it.
        </p>
        <p class="empty-actions">
          <SampleButton />
        </p>
      </Empty>
      <Databases data={data} />
      {current?.admin && (
        <>
          <Compaction onDone={() => undefined} />
          <CheckPanel />
        </>
      )}
    </>
  );
}
