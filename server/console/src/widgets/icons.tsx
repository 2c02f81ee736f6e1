/** Icons of 16 by 16, drawn with lines in the colour of the text. */
import type { JSX } from 'preact';

const paths = {
  database:
    'M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2Zm0 0v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4m-11 4c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2',
  table: 'M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13',
  field: 'M2 11.5 5.5 7l3 2.5L14 4',
  tag: 'M2.5 2.5h5l6 6-5 5-6-6zM5.3 5.3h.01',
  series: 'M2 5h12M2 8h8M2 11h10',
  value: 'M6 8h4',
  chevron: 'm6 4 4 4-4 4',
  down: 'm4 6 4 4 4-4',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.2 3.2',
  chart: 'M2.5 2.5v11h11M5 10l2.5-3 2.5 2 3-4',
  query: 'm3 4.5 3.5 3.5L3 11.5M8 12h5',
  play: 'M4.5 3v10l8-5z',
  stop: 'M4 4h8v8H4z',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  check: 'm3 8.5 3 3 7-7',
  close: 'm4 4 8 8m0-8-8 8',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-9v3l2 1.5',
  link: 'M6.5 9.5 9.5 6.5M7 4.5l1-1a3 3 0 0 1 4.5 4.5l-1 1m-7-2-1 1A3 3 0 0 0 8 12.5l1-1',
  download: 'M8 2.5v7.5m-3-3 3 3 3-3M3 13h10',
  warning: 'M8 2.5 14 13H2zM8 6.5v3M8 11.3h.01',
  sun: 'M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm0-9v1.5m0 10v1.5M1.5 8H3m10 0h1.5M3.4 3.4l1 1m7.2 7.2 1 1m0-9.2-1 1m-7.2 7.2-1 1',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z',
  system: 'M2.5 3h11v7.5h-11zM6 13.5h4',
  user: 'M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8Zm-5 5.5c.5-2.5 2.5-3.5 5-3.5s4.5 1 5 3.5',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.6L13 6M13 2.5V6H9.5',
  out: 'M9 6.5h-4M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.2 3.2',
  filter: 'M2.5 3.5h11l-4.2 5v4l-2.6 1.5V8.5z',
  history: 'M3 8a5 5 0 1 0 1.5-3.6L3 6M3 2.5V6h3.5M8 5.5V8l1.8 1.2',
  saved: 'M4 2.5h8v11l-4-3-4 3z',
  pulse: 'M1.5 8.5h3l2-5 3 9 2-4h3',
  key: 'M10.5 9a3.5 3.5 0 1 0-3.3-2.3L2.5 11.4v2.1h2.6v-1.8h1.8l1.8-2.9c.6.1 1.2.2 1.8.2Zm.7-4.2h.01',
  plus: 'M8 3v10M3 8h10',
  upload: 'M8 10.5V3m-3 3 3-3 3 3M3 13h10',
  trash: 'M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9',
  pause: 'M5.5 3.5v9m5-9v9',
  tree: 'M3 2.5h4v3H3zM9 6.5h4v3H9zM9 11h4v3H9zM5 5.5v7h4M5 8h4',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
