/** The saved queries, with a search: open, rename, delete. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { SavedQuery } from '../api/saved';
import { Icon } from '../widgets/icons';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { Search } from '../widgets/Search';
import { loadSaved, saved, savedError } from './saved';

interface Props {
  onOpen: (query: SavedQuery) => void;
  onChange: (kind: 'rename' | 'delete', query: SavedQuery) => void;
}

export function SavedList({ onOpen, onChange }: Props): JSX.Element {
  const [words, setWords] = useState('');
  // Other pages and nodes save too.
  useEffect(() => void loadSaved(), []);
  const all = saved.value;
  const error = savedError.value;
  const found = (all ?? []).filter((one) =>
    `${one.name} ${one.statement}`.toLowerCase().includes(words.toLowerCase()),
  );
  return (
    <div class="history">
      <Search label="Search saved queries" placeholder="Search" value={words} onChange={setWords} />
      {error && <ErrorNotice error={error} retry={() => void loadSaved()} />}
      {all === null && !error && <Loading text="Loading saved queries" />}
      <ul class="history-list saved-list" aria-label="Saved queries">
        {found.map((one) => (
          <li key={one.name}>
            <button type="button" class="menu-item" onClick={() => onOpen(one)}>
              <span>{one.name}</span>
              <code>{one.statement.slice(0, 160)}</code>
            </button>
            <button
              type="button"
              class="button"
              aria-label={`Rename ${one.name}`}
              onClick={() => onChange('rename', one)}
            >
              Rename
            </button>
            <button
              type="button"
              class="button"
              aria-label={`Delete ${one.name}`}
              title="Delete"
              onClick={() => onChange('delete', one)}
            >
              <Icon name="trash" />
            </button>
          </li>
        ))}
      </ul>
      {all !== null && found.length === 0 && <p class="tree-foot">No saved queries.</p>}
    </div>
  );
}
