/** Fields, aggregate, group, filters and scale of a chart. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { toApiError } from '../api/errors';
import { seriesName, tagValues, type Column, type Some } from '../catalog/catalog';
import { unitNames, type Unit } from '../chart/units';
import { windows } from '../chart/window';
import { Choice, Toggle } from '../widgets/Choice';
import { Icon } from '../widgets/icons';
import { Menu } from '../widgets/Menu';
import { Search } from '../widgets/Search';
import { aggregates, type Aggregate, type View } from './state';

interface Props {
  view: View;
  columns: readonly Column[];
  onChange: (view: View) => void;
}

const units = Object.entries(unitNames) as [Unit, string][];
const widths: [string, string][] = [
  ['auto', 'Auto'],
  ...windows.map((one): [string, string] => [one.text, one.text]),
];
const tops = ['5', '10', '20', '50'].map((count) => [count, count] as const);

export function Controls({ view, columns, onChange }: Props): JSX.Element {
  const tags = columns.filter((column) => column.role === 'tag');
  const groups: [string, string][] = [
    ['', 'Nothing'],
    ...tags.map((tag): [string, string] => [tag.name, tag.name === seriesName ? 'Series' : tag.name]),
  ];
  return (
    <div class="controls" role="group" aria-label="Settings of the chart">
      <Menu label="Fields" text={`Fields: ${view.fields.join(', ')}`}>
        {() => <Fields view={view} columns={columns} onChange={onChange} />}
      </Menu>
      <Choice
        label="Aggregate"
        value={view.aggregate}
        options={aggregates.map((name): [Aggregate, string] => [name, name])}
        onChange={(aggregate) => onChange({ ...view, aggregate })}
      />
      <Choice
        label="Group by"
        value={view.group ?? ''}
        options={groups}
        onChange={(group) => onChange({ ...view, group: group === '' ? null : group })}
      />
      {view.group !== null && (
        <Choice
          label="Top"
          value={String(view.top)}
          options={tops}
          onChange={(top) => onChange({ ...view, top: Number(top) })}
        />
      )}
      <Choice
        label="Window"
        value={view.window}
        options={widths}
        onChange={(window) => onChange({ ...view, window })}
      />
      <Choice
        label="Unit"
        value={view.unit}
        options={units}
        onChange={(unit) => onChange({ ...view, unit })}
      />
      <Toggle label="Log" value={view.log} onChange={(log) => onChange({ ...view, log })} />
      <Toggle
        label="Day before"
        value={view.compare}
        onChange={(compare) => onChange({ ...view, compare })}
      />
      {tags.length > 0 && (
        <Menu label="Add a filter" text="Filter" icon="filter">
          {() => <FilterPanel view={view} tags={tags} onChange={onChange} />}
        </Menu>
      )}
      {view.filters.map((filter) => (
        <span class="chip" key={filter.tag}>
          {filter.tag} = {filter.values.join(', ')}
          <button
            type="button"
            aria-label={`Remove the filter of ${filter.tag}`}
            onClick={() => onChange({ ...view, filters: view.filters.filter((one) => one !== filter) })}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
    </div>
  );
}

function Fields({ view, columns, onChange }: Props): JSX.Element {
  return (
    <div class="checks">
      {columns
        .filter((column) => column.role === 'field')
        .map((column) => (
          <label key={column.name} class="menu-item">
            <input
              type="checkbox"
              checked={view.fields.includes(column.name)}
              onChange={(event) => {
                const others = view.fields.filter((name) => name !== column.name);
                onChange({
                  ...view,
                  fields: event.currentTarget.checked ? [...others, column.name] : others,
                });
              }}
            />
            {column.name} <span class="tree-hint">{column.type.toLowerCase()}</span>
          </label>
        ))}
    </div>
  );
}

/** Values that are listed; a search finds others. */
const listed = 100;

function FilterPanel(props: {
  view: View;
  tags: readonly Column[];
  onChange: (view: View) => void;
}): JSX.Element {
  const { view, tags, onChange } = props;
  const [tag, setTag] = useState(tags[0]?.name ?? '');
  const [words, setWords] = useState('');
  const [found, setFound] = useState<Some<string> | null>(null);
  const [fault, setFault] = useState<string | null>(null);

  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => {
      setFault(null);
      tagValues(view.database, view.table, tag, words, listed).then(
        (values) => {
          if (current) setFound(values);
        },
        (thrown: unknown) => {
          if (current) setFault(toApiError(thrown).message);
        },
      );
    }, 150);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [tag, words]);

  const chosen = view.filters.find((filter) => filter.tag === tag)?.values ?? [];
  const change = (values: string[]) => {
    const others = view.filters.filter((filter) => filter.tag !== tag);
    onChange({ ...view, filters: values.length === 0 ? others : [...others, { tag, values }] });
  };
  return (
    <div class="filter-panel">
      <Choice
        label="Tag"
        value={tag}
        options={tags.map((one): [string, string] => [one.name, one.name])}
        onChange={setTag}
      />
      <Search label="Search values" value={words} onChange={setWords} />
      {fault && <p role="alert">{fault}</p>}
      <div class="checks">
        {found?.items.map((value) => (
          <label key={value} class="menu-item">
            <input
              type="checkbox"
              checked={chosen.includes(value)}
              onChange={(event) => {
                change(
                  event.currentTarget.checked ? [...chosen, value] : chosen.filter((one) => one !== value),
                );
              }}
            />
            {value}
          </label>
        ))}
      </div>
      {found?.more && <p class="tree-foot">First {listed} values; search for others.</p>}
      {found?.items.length === 0 && <p class="tree-foot">No value has these letters.</p>}
    </div>
  );
}
