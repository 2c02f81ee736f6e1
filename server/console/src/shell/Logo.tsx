import type { JSX } from 'preact';

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M5 13c3.7-4 7.3-4 11 0s7.3 4 11 0M5 21c3.7-4 7.3-4 11 0s7.3 4 11 0" />
    </svg>
  );
}
