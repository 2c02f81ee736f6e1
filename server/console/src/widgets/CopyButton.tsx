/** Copies a text to the clipboard and says so. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Icon, type IconName } from './icons';

/** The clipboard of the browser; outside secure contexts, the selection of a hidden text. */
export async function copy(text: string): Promise<void> {
  if (window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  // The only way without a secure context, such as plain HTTP to another host.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  document.execCommand('copy');
  area.remove();
}

interface Props {
  label: string;
  icon?: IconName;
  text: () => string;
}

export function CopyButton({ label, icon = 'copy', text }: Props): JSX.Element {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  useEffect(() => {
    if (state === 'idle') return;
    const timer = setTimeout(() => setState('idle'), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const words = { idle: label, copied: 'Copied', failed: 'Copy is not allowed' }[state];
  return (
    <button
      type="button"
      class="button"
      onClick={() => {
        copy(text()).then(
          () => setState('copied'),
          () => setState('failed'),
        );
      }}
    >
      <Icon name={state === 'copied' ? 'check' : icon} />
      <span class="button-text" aria-live="polite">
        {words}
      </span>
    </button>
  );
}
