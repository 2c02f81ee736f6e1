/** Dark, light, or what the system says. */
import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const key = 'tidelake.theme';

function stored(): Theme {
  const value = localStorage.getItem(key);
  return value === 'light' || value === 'dark' ? value : 'system';
}

export const theme = signal<Theme>(stored());
/** Increases when colours change: what is drawn on a canvas must be drawn again. */
export const colours = signal(0);

function apply(): void {
  document.documentElement.dataset['theme'] = theme.value;
  colours.value++;
}

export function setTheme(value: Theme): void {
  theme.value = value;
  localStorage.setItem(key, value);
  apply();
}

export function startTheme(): void {
  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
}
