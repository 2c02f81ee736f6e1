/** The page Live: what this node does now. For administrators. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import type { Alarm, NodeFigures } from '../api/node';
import { session } from '../api/session';
import { formatInstant, zone } from '../chart/instant';
import { formatDuration } from '../chart/units';
import { useCommands } from '../shell/commands';
import { change, linkTo, route } from '../shell/route';
import { Icon } from '../widgets/icons';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { StatementDialog, type Question } from '../widgets/StatementDialog';
import { Tabs } from '../widgets/Tabs';
import './live.css';
import { LogPanel } from './LogPanel';
import { Nodes } from './Nodes';
import { Overview } from './Overview';
import { Statements } from './Statements';
import { StorePanel } from './StorePanel';
import { figures, follow, forget, link, stopped } from './stream';

const tabs = [
  ['overview', 'Overview'],
  ['queries', 'Queries'],
  ['store', 'Store'],
  ['nodes', 'Nodes'],
  ['log', 'Log'],
] as const;

type Tab = (typeof tabs)[number][0];

/** The user whose figures are kept: those of an administrator are not for the next user. */
let owner: string | null | undefined;

function toggle(): void {
  stopped.value = !stopped.value;
}

export function LivePage(): JSX.Element {
  useCommands(() => [
    ...tabs.map(([tab, name]) => ({ name: `Live: show ${name.toLowerCase()}`, run: () => change({ tab }) })),
    { name: 'Live: stop or continue the page', run: toggle },
  ]);
  const current = session.value;
  if (!current?.admin) {
    return (
      <div class="content">
        <Empty title="Live is for administrators">
          <p>It shows the queries, connections and log of all users. Ask an administrator for the right:</p>
          <pre tabIndex={0}>GRANT ADMIN TO {current?.user ?? 'user'}</pre>
          <p>
            Your own queries are in{' '}
            <a href={linkTo('query', new URLSearchParams({ sql: 'SHOW QUERIES' }))}>SHOW QUERIES</a>.
          </p>
        </Empty>
      </div>
    );
  }
  return <Followed user={current.user} />;
}

function Followed({ user }: { user: string | null }): JSX.Element {
  const [question, setQuestion] = useState<Question | null>(null);
  useEffect(() => {
    if (owner !== user) forget();
    owner = user;
    return follow();
  }, [user]);
  const { parameters } = route.value;
  const tab: Tab = tabs.find(([name]) => name === parameters.get('tab'))?.[0] ?? 'overview';
  const node = figures.value;
  return (
    <div class="content live">
      <Head node={node} />
      <span class="visually-hidden" role="status">
        {node && `${node.alarms.length} alarms`}
      </span>
      {node?.alarms.map((alarm, index) => (
        <AlarmNotice key={`${alarm.name} ${index}`} alarm={alarm} />
      ))}
      <Tabs label="Live" value={tab} tabs={tabs} onChange={(next) => change({ tab: next })}>
        <Panel tab={tab} node={node} ask={setQuestion} />
      </Tabs>
      {question && <StatementDialog {...question} onClose={() => setQuestion(null)} />}
    </div>
  );
}

function Panel(props: {
  tab: Tab;
  node: NodeFigures | null;
  ask: (question: Question) => void;
}): JSX.Element {
  const { tab, node, ask } = props;
  if (tab === 'queries') return <Statements ask={ask} />;
  if (tab === 'nodes') return <Nodes />;
  if (tab === 'log') return <LogPanel />;
  if (node === null) return <NoFigures />;
  return tab === 'store' ? <StorePanel node={node} /> : <Overview node={node} />;
}

function NoFigures(): JSX.Element {
  const state = link.value;
  if (state.state === 'waiting' || state.state === 'refused') {
    return (
      <Empty title="No figures of this node">
        <p>
          {state.state === 'refused'
            ? 'The server refuses the stream, for the reason above. Queries and connections are listed beside it all the same.'
            : 'The stream of the node does not answer; the page tries again by itself.'}
        </p>
      </Empty>
    );
  }
  return <Loading text="Waiting for the first figures" />;
}

function Head({ node }: { node: NodeFigures | null }): JSX.Element {
  return (
    <div class="explore-head">
      <h1>Live</h1>
      <span class="live-head">
        {node && (
          <>
            <span>
              {node.store.name} · version {node.version}
            </span>
            <span title={`started ${formatInstant(Date.parse(node.started), zone.value)}`}>
              up {formatDuration(node.uptime_seconds, 3)}
            </span>
          </>
        )}
        <LinkState />
        <button type="button" class="button" aria-pressed={stopped.value} onClick={toggle}>
          <Icon name={stopped.value ? 'play' : 'pause'} /> {stopped.value ? 'Continue' : 'Stop'}
        </button>
      </span>
      {(link.value.state === 'refused' || link.value.state === 'waiting') && (
        <ErrorNotice error={link.value.error} />
      )}
    </div>
  );
}

/** Whether the figures are those of now. */
function LinkState(): JSX.Element {
  const state = link.value;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (state.state !== 'waiting') return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [state]);
  const texts: Record<typeof state.state, ComponentChildren> = {
    connecting: 'Connecting…',
    open: 'Connected',
    paused: 'Stopped',
    refused: 'Not connected',
    waiting:
      state.state === 'waiting'
        ? `Connection lost, next attempt in ${Math.max(1, Math.ceil((state.until - now) / 1000))} s`
        : '',
  };
  return (
    <span class={`link link-${state.state}`} role={state.state === 'waiting' ? undefined : 'status'}>
      <Icon name={state.state === 'open' ? 'pulse' : 'warning'} /> {texts[state.state]}
    </span>
  );
}

/** Pages of the documents whose remedy is a page of the console. */
const remedies: Record<string, { text: string; href: string }> = {
  lag: { text: 'Fold the log on the page Data', href: linkTo('data') },
  watch: { text: 'Read the log', href: linkTo('live', new URLSearchParams({ tab: 'log' })) },
};

function AlarmNotice({ alarm }: { alarm: Alarm }): JSX.Element {
  const remedy = remedies[alarm.page];
  return (
    <div class={`notice notice-${alarm.severity}`} role="note">
      <Icon name="warning" />
      <div>
        <p class="notice-title">
          {alarm.severity === 'critical' ? 'Critical' : 'Warning'}: {alarm.text}
        </p>
        <p class="notice-advice">
          What to do: <code>docs/operations/{alarm.page}.md</code>
          {remedy && (
            <>
              {' '}
              · <a href={remedy.href}>{remedy.text}</a>
            </>
          )}
        </p>
      </div>
    </div>
  );
}
