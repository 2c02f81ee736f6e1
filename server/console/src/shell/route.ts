/** The page and its state are in the fragment of the URL: `#/query?sql=…`. */
import { signal } from '@preact/signals';

export const pages = ['explore', 'query', 'data', 'live', 'access'] as const;

export type Page = (typeof pages)[number];

export interface Route {
  page: Page;
  parameters: URLSearchParams;
}

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const page = pages.find((name) => name === path) ?? 'explore';
  return { page, parameters: new URLSearchParams(query) };
}

export const route = signal<Route>(read());

export function linkTo(page: Page, parameters = new URLSearchParams()): string {
  const query = parameters.toString();
  return `#/${page}${query === '' ? '' : `?${query}`}`;
}

/** Changes the URL; with `replace`, without a new entry in the browser's history. */
export function go(page: Page, parameters = new URLSearchParams(), replace = false): void {
  const link = linkTo(page, parameters);
  if (link === location.hash) return;
  if (replace) window.history.replaceState(null, '', link);
  else window.history.pushState(null, '', link);
  route.value = read();
}

/** Changes some parameters of the page that is shown; an empty text removes one. */
export function change(parts: Record<string, string>, replace = false): void {
  const parameters = new URLSearchParams(route.value.parameters);
  for (const [name, value] of Object.entries(parts)) {
    if (value === '') parameters.delete(name);
    else parameters.set(name, value);
  }
  go(route.value.page, parameters, replace);
}

export function followLocation(): void {
  const update = () => {
    route.value = read();
  };
  addEventListener('popstate', update);
  addEventListener('hashchange', update);
}
