/** A token, which the server returns once. */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { CopyButton } from '../widgets/CopyButton';

export function NewToken(props: { name: string; text: string; onClose: () => void }): JSX.Element {
  const place = useRef<HTMLElement>(null);
  useEffect(() => place.current?.focus(), []);
  return (
    <section class="result-note new-token" ref={place} tabIndex={-1} aria-label={`The token ${props.name}`}>
      <p>
        <strong>The token {props.name} is not shown again: copy it now.</strong> If it is lost, drop it and
        create another one.
      </p>
      <code tabIndex={0}>{props.text}</code>
      <p class="actions">
        <CopyButton label="Copy the token" text={() => props.text} />
        <button type="button" class="button" onClick={props.onClose}>
          I have copied it
        </button>
      </p>
    </section>
  );
}
