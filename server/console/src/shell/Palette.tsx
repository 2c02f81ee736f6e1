/** The command palette: Ctrl-K, a few letters, Enter. */
import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { loaded, type TreeNode } from '../catalog/tree';
import { commands, paletteOpen, type Command } from './commands';
import { go } from './route';

function tableCommands(): Command[] {
  const nodes = [...loaded.value.values()].flatMap((children) => children.nodes);
  return nodes
    .filter((node): node is TreeNode & { kind: 'table' } => node.kind === 'table')
    .flatMap(({ database, table }) => {
      const place = new URLSearchParams({ db: database, table });
      return [
        { name: `Chart ${database}.${table}`, run: () => go('explore', place) },
        { name: `Files and schema of ${database}.${table}`, run: () => go('data', place) },
      ];
    });
}

/** Whether all words are in the name. */
function matches(command: Command, words: string): boolean {
  const name = command.name.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => name.includes(word));
}

export function Palette(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const open = paletteOpen.value;

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        paletteOpen.value = !paletteOpen.value;
      }
    };
    document.addEventListener('keydown', keys, true);
    return () => document.removeEventListener('keydown', keys, true);
  }, []);

  useEffect(() => {
    if (open) {
      setWords('');
      setAt(0);
      dialog.current?.showModal();
    } else {
      dialog.current?.close();
    }
  }, [open]);

  const found = open
    ? [...commands.value, ...tableCommands()].filter((command) => matches(command, words)).slice(0, 60)
    : [];
  const chosen = Math.min(at, found.length - 1);

  const run = (command: Command | undefined) => {
    if (!command) return;
    paletteOpen.value = false;
    dialog.current?.close();
    command.run();
  };

  const keys = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, found.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0));
    else if (event.key === 'Enter') run(found[chosen]);
    else return;
    event.preventDefault();
  };

  useEffect(() => {
    dialog.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);

  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Commands"
      onClose={() => (paletteOpen.value = false)}
      onClick={(event) => {
        if (event.target === dialog.current) paletteOpen.value = false;
      }}
    >
      {open && (
        <div onKeyDown={keys}>
          <input
            type="text"
            role="combobox"
            aria-expanded="true"
            aria-controls={id}
            aria-activedescendant={found.length > 0 ? `${id}-${chosen}` : undefined}
            aria-label="Command"
            placeholder="Type a command or the name of a table"
            value={words}
            autofocus
            onInput={(event) => {
              setWords(event.currentTarget.value);
              setAt(0);
            }}
          />
          <ul role="listbox" id={id} aria-label="Commands">
            {found.map((command, index) => (
              <li
                key={command.name}
                id={`${id}-${index}`}
                role="option"
                aria-selected={index === chosen}
                onClick={() => run(command)}
                onPointerMove={() => setAt(index)}
              >
                <span>{command.name}</span>
                {command.keys && <kbd>{command.keys}</kbd>}
              </li>
            ))}
          </ul>
          {found.length === 0 && <p class="palette-none">No command has these words.</p>}
        </div>
      )}
    </dialog>
  );
}
