/** Fields of forms: a label above its control, a hint below. */
import type { JSX } from 'preact';
import { useId } from 'preact/hooks';

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  type?: 'text' | 'password';
  hint?: string;
  placeholder?: string;
  /** What the list below the field offers; other texts are possible. */
  suggestions?: readonly string[];
  required?: boolean;
}

export function Field(props: Props): JSX.Element {
  const { label, value, onChange, type = 'text', hint, placeholder, suggestions, required = false } = props;
  const id = useId();
  const kind =
    type === 'password'
      ? ({ type } as const)
      : suggestions
        ? ({ type: 'text', list: `${id}-list` } as const)
        : ({ type: 'text' } as const);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        {...kind}
        value={value}
        required={required}
        placeholder={placeholder}
        autocomplete={type === 'password' ? 'new-password' : 'off'}
        spellcheck={false}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}

export function Check(props: {
  label: string;
  value: boolean;
  onChange: (value: boolean) => void;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.value}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  );
}
