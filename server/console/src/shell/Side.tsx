/** The panel beside a page. On narrow screens it is closed until its button opens it. */
import { signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Icon } from '../widgets/icons';
import { route } from './route';

const open = signal(false);

export function Side({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  useEffect(() => {
    open.value = false;
  }, [route.value]);
  return (
    <>
      <button
        type="button"
        class="button side-button"
        aria-expanded={open.value}
        onClick={() => (open.value = !open.value)}
      >
        <Icon name="tree" /> {label}
      </button>
      <aside class={open.value ? 'side side-open' : 'side'} aria-label={label}>
        {children}
      </aside>
    </>
  );
}
