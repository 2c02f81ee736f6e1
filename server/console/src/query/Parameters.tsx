/** Values of the parameters of a statement. */
import type { JSX } from 'preact';
import type { Parameter } from '../api/sql';

/** Numbers, `true`, `false` and `null` are values of their types; anything else, and a text in quotes, is a text. */
export function parameterOf(text: string): Parameter {
  const trimmed = text.trim();
  if (trimmed === 'true') return true;
  if (trimmed === 'false') return false;
  if (trimmed === '' || trimmed.toLowerCase() === 'null') return null;
  const quoted = /^'(.*)'$/s.exec(trimmed)?.[1];
  if (quoted !== undefined) return quoted.replaceAll("''", "'");
  const value = Number(trimmed);
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : text;
}

interface Props {
  count: number;
  values: readonly string[];
  onChange: (values: string[]) => void;
}

export function Parameters({ count, values, onChange }: Props): JSX.Element {
  return (
    <div class="parameters" role="group" aria-label="Parameters">
      {Array.from({ length: count }, (_, index) => (
        <label key={index}>
          ${index + 1}
          <input
            value={values[index] ?? ''}
            placeholder="null"
            onInput={(event) => {
              const next = Array.from({ length: count }, (_, at) => values[at] ?? '');
              next[index] = event.currentTarget.value;
              onChange(next);
            }}
          />
        </label>
      ))}
    </div>
  );
}
