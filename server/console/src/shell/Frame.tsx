/** The frame around all pages: navigation, palette, theme, user. */
import type { ComponentType, JSX } from 'preact';
import { lazy, Suspense } from 'preact/compat';
import { useEffect } from 'preact/hooks';
import { logOut, session } from '../api/session';
import * as tree from '../catalog/tree';
import { setZone, zone } from '../chart/instant';
import { Explore } from '../explore/Explore';
import { QueryPage } from '../query/QueryPage';
import { Icon, type IconName } from '../widgets/icons';
import { Menu } from '../widgets/Menu';
import { Loading } from '../widgets/Notice';
import { paletteOpen, useCommands } from './commands';
import { Logo } from './Logo';
import { Palette } from './Palette';
import { go, linkTo, route, type Page } from './route';
import { setTheme, theme, type Theme } from './theme';

interface Entry {
  page: Page;
  name: string;
  icon: IconName;
  view: ComponentType;
}

const LivePage = lazy(async () => (await import('../live/LivePage')).LivePage);
const AccessPage = lazy(async () => (await import('../access/AccessPage')).AccessPage);
const DataPage = lazy(async () => (await import('../data/DataPage')).DataPage);

/** The pages of the navigation; a page that is added here has its entry, its command and its address. */
const entries: readonly Entry[] = [
  { page: 'explore', name: 'Explore', icon: 'chart', view: Explore },
  { page: 'query', name: 'Query', icon: 'query', view: QueryPage },
  { page: 'data', name: 'Data', icon: 'database', view: DataPage },
  { page: 'live', name: 'Live', icon: 'pulse', view: LivePage },
  { page: 'access', name: 'Access', icon: 'key', view: AccessPage },
];

const themes: readonly (readonly [Theme, string, IconName])[] = [
  ['system', 'System theme', 'system'],
  ['light', 'Light theme', 'sun'],
  ['dark', 'Dark theme', 'moon'],
];

export function Frame(): JSX.Element {
  useCommands(() => [
    ...entries.map((entry) => ({ name: `Go to ${entry.name}`, run: () => go(entry.page) })),
    ...themes.map(([value, name]) => ({ name: `Use ${name.toLowerCase()}`, run: () => setTheme(value) })),
    {
      name: 'Show times in UTC or in the local zone',
      run: () => setZone(zone.value === 'utc' ? 'local' : 'utc'),
    },
    { name: 'Load the list of databases again', run: () => void tree.reload() },
  ]);
  useEffect(() => void tree.load(null), []);
  const { page } = route.value;
  const entry = entries.find((one) => one.page === page) ?? entries[0];
  const View = entry?.view ?? Explore;
  useEffect(() => {
    document.title = `${entry?.name ?? ''} · Tidelake`;
  }, [entry]);

  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        <span class="brand">
          <Logo /> <span class="brand-name">Tidelake</span>
        </span>
        <nav aria-label="Pages">
          {entries.map((one) => (
            <a key={one.page} href={linkTo(one.page)} aria-current={one.page === page ? 'page' : undefined}>
              <Icon name={one.icon} /> {one.name}
            </a>
          ))}
        </nav>
        <div class="top-tools">
          <button
            type="button"
            class="button palette-button"
            aria-label="Commands"
            onClick={() => (paletteOpen.value = true)}
          >
            <Icon name="search" /> <span class="button-text">Commands</span> <kbd>Ctrl K</kbd>
          </button>
          <button
            type="button"
            class="button zone-button"
            title="Zone in which times are shown"
            onClick={() => setZone(zone.value === 'utc' ? 'local' : 'utc')}
          >
            {zone.value === 'utc' ? 'UTC' : 'Local'}
          </button>
          <ThemeMenu />
          <UserMenu />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Suspense fallback={<Loading text={`Loading ${entry?.name ?? ''}`} />}>
          <View />
        </Suspense>
      </main>
      <Palette />
    </div>
  );
}

/** Links to fragments are pages here, so the focus is moved by hand. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function ThemeMenu(): JSX.Element {
  const icon = themes.find(([value]) => value === theme.value)?.[2] ?? 'system';
  return (
    <Menu label="Theme" icon={icon} align="end">
      {(close) =>
        themes.map(([value, name, symbol]) => (
          <button
            key={value}
            type="button"
            class="menu-item"
            aria-pressed={value === theme.value}
            onClick={() => {
              setTheme(value);
              close();
            }}
          >
            <Icon name={symbol} /> {name}
          </button>
        ))
      }
    </Menu>
  );
}

function UserMenu(): JSX.Element | null {
  const current = session.value;
  if (!current?.user) return null;
  return (
    <Menu label={`User ${current.user}`} icon="user" text={current.user} align="end">
      {(close) => (
        <button
          type="button"
          class="menu-item"
          onClick={() => {
            close();
            void logOut();
          }}
        >
          <Icon name="close" /> Log out
        </button>
      )}
    </Menu>
  );
}
