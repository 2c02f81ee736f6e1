/** Earlier statements, with a search. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatInstant, zone } from '../chart/instant';
import { formatCount, formatDuration } from '../chart/units';
import { Search } from '../widgets/Search';
import { clearHistory, history, type Entry } from './history';

export function HistoryList({ onChoose }: { onChoose: (entry: Entry) => void }): JSX.Element {
  const [words, setWords] = useState('');
  const found = history.value.filter((entry) => entry.sql.toLowerCase().includes(words.toLowerCase()));
  return (
    <div class="history">
      <Search label="Search the history" placeholder="Search" value={words} onChange={setWords} />
      <div class="history-list">
        {found.slice(0, 50).map((entry) => (
          <button
            key={`${entry.at} ${entry.sql}`}
            type="button"
            class="menu-item"
            onClick={() => onChoose(entry)}
          >
            <code>{entry.sql.slice(0, 160)}</code>
            <span class="tree-hint">
              {formatInstant(Math.floor(entry.at / 1000) * 1000, zone.value)} ·{' '}
              {formatDuration(entry.milliseconds / 1000, 3)} ·{' '}
              {entry.failed ? 'failed' : `${formatCount(entry.rows ?? 0)} rows`}
            </span>
          </button>
        ))}
      </div>
      {found.length === 0 && <p class="tree-foot">No statements.</p>}
      {history.value.length > 0 && (
        <button type="button" class="button" onClick={clearHistory}>
          Clear the history
        </button>
      )}
    </div>
  );
}
