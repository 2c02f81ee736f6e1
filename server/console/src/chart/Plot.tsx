/** Lines over time, drawn by uPlot. Where a page can zoom, a drag does so, and + and - of the keyboard; arrows move. */
import type { JSX } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { colours } from '../shell/theme';
import { zone } from './instant';
import { isolated, type Aligned, type Values } from './series';
import { drawable, extremes, thin, type Thin } from './thin';
import { formatValue, type Unit } from './units';

export interface Style {
  name: string;
  colour: string;
  earlier: boolean;
  shown: boolean;
}

interface Props {
  label: string;
  data: Aligned;
  styles: readonly Style[];
  /** The ends of the axis in milliseconds. */
  from: number;
  to: number;
  unit: Unit;
  log: boolean;
  /** Whether the axis of values begins at 0. */
  zero?: boolean;
  /** A range that was selected by a drag. */
  onZoom?: (from: number, to: number) => void;
  /** The index of the time under the pointer, or `null`. */
  onPoint?: (index: number | null) => void;
  onKey?: (key: string) => boolean;
  onWidth?: (pixels: number) => void;
}

/** The value of a token as a canvas reads it: tokens hold `light-dark(…)`, which only a property of an element resolves. */
function colour(name: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function toData(data: Aligned): uPlot.AlignedData {
  return [data.times.map((time) => time / 1000), ...data.values];
}

function seriesOf(style: Style): uPlot.Series {
  return {
    label: style.name,
    show: style.shown,
    stroke: colour(style.colour),
    width: style.earlier ? 1 : 1.5,
    ...(style.earlier ? { dash: [5, 4], alpha: 0.75 } : {}),
    points: {
      size: 4,
      fill: colour(style.colour),
      filter: (plot, index) => isolated((plot.data[index] ?? []) as Values),
    },
  };
}

function optionsOf(
  latest: { current: Props },
  drawn: { current: Thin },
  size: { width: number; height: number },
): uPlot.Options {
  const props = latest.current;
  const axis: uPlot.Axis = {
    stroke: colour('--text-2'),
    grid: { stroke: colour('--grid'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    ...size,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    ...(zone.value === 'utc'
      ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1e3), 'Etc/UTC') }
      : {}),
    scales: {
      x: { range: () => [latest.current.from / 1000, latest.current.to / 1000] },
      // The enumerations of uPlot exist as types only; 3 is logarithmic.
      // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment
      y: props.log ? { distr: 3 } : props.zero ? { range: fromZero } : {},
    },
    axes: [
      { ...axis, values: axisTimes },
      {
        ...axis,
        size: (_, values) =>
          18 + 6.6 * Math.max(3, ...((values as string[] | null) ?? []).map((text) => text.length)),
        values: (_, ticks) =>
          ticks.map((tick: number | null) => (tick === null ? '' : formatValue(tick, props.unit, 4))),
      },
    ],
    series: [{}, ...props.styles.map(seriesOf)],
    cursor: {
      drag: { x: props.onZoom !== undefined, y: false, setScale: false },
      focus: { prox: 24 },
      points: { size: 7 },
    },
    focus: { alpha: 0.35 },
    hooks: {
      setCursor: [
        (plot) => {
          const at = plot.cursor.idx ?? null;
          const { indexes } = drawn.current;
          latest.current.onPoint?.(at === null || indexes === null ? at : (indexes[at] ?? null));
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          const [from, to] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.onZoom?.(Math.floor(from * 1000), Math.ceil(to * 1000));
        },
      ],
    },
  };
}

/** ISO dates and 24 hours, whatever the language of the browser is. */
const axisTimes: uPlot.Axis.Values = [
  [31_536_000, '{YYYY}', null, null, null, null, null, null, 1],
  [2_419_200, '{YYYY}-{MM}', null, null, null, null, null, null, 1],
  [86_400, '{MM}-{DD}', '\n{YYYY}', null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{YYYY}-{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', '\n{YYYY}-{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
  [0.001, '{ss}.{fff}', '\n{YYYY}-{MM}-{DD} {HH}:{mm}', null, null, null, '\n{HH}:{mm}', null, 1],
];

const fromZero: uPlot.Range.Function = (_, __, most) => [0, most > 0 ? most * 1.1 : 1];

let isWarm = false;

/** Draws lines that nobody sees, once: browsers compile a function when it is first called, which then takes no time of a chart. */
export function warmUp(): void {
  if (isWarm) return;
  isWarm = true;
  try {
    const style: Style = { name: '', colour: '--line-1', earlier: false, shown: true };
    const aligned: Aligned = { times: [0, 60_000, 120_000], values: [[1, null, 3]] };
    const props: Props = {
      label: '',
      data: aligned,
      styles: [style],
      from: 0,
      to: 120_000,
      unit: 'none',
      log: false,
    };
    const points = thin(drawable(aligned, false), 0, 120_000, 300);
    const plot = new uPlot(
      optionsOf({ current: props }, { current: points }, { width: 300, height: 200 }),
      toData(points),
      document.createElement('div'),
    );
    // uPlot draws after the code that makes it.
    queueMicrotask(() => plot.destroy());
  } catch {
    // Charts are drawn without it, only later.
  }
}

export function Plot(props: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);

  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize((last) => (last?.width === width && last.height === height ? last : { width, height }));
      latest.current.onWidth?.(width);
    };
    // The observer would call in the next frame: what loads the points waits for the width.
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const { data, styles, from, to, unit, log } = props;
  // A value that the axis does not have is no extreme of a pixel.
  const whole = useMemo(() => drawable(data, log), [data, log]);
  const points = useMemo(() => thin(whole, from, to, size?.width ?? 0), [whole, from, to, size?.width]);
  const ends = useMemo(() => extremes(points.values), [points]);
  const drawn = useRef(points);
  drawn.current = points;
  const look = [styles.map((style) => style.name).join('\n'), unit, log, zone.value, colours.value];

  // Layout effects: the frame that shows other numbers shows their lines.
  useLayoutEffect(() => {
    if (!place.current || !size) return;
    const made = new uPlot(optionsOf(latest, drawn, size), toData(points), place.current);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [...look, size === null]);

  // Other values of the same lines need no other plot.
  useLayoutEffect(() => plot.current?.setData(toData(points)), [points]);

  useLayoutEffect(() => {
    if (size) plot.current?.setSize(size);
  }, [size?.width, size?.height]);

  useLayoutEffect(() => {
    styles.forEach((style, index) => {
      if (plot.current?.series[index + 1]?.show !== style.shown) {
        plot.current?.setSeries(index + 1, { show: style.shown });
      }
    });
  }, [styles]);

  return (
    <div
      class="plot"
      ref={place}
      role="img"
      data-points={points.times.length}
      data-min={ends.min ?? undefined}
      data-max={ends.max ?? undefined}
      aria-label={props.label}
      aria-keyshortcuts={props.onKey ? '+ - ArrowLeft ArrowRight' : undefined}
      tabIndex={props.onKey ? 0 : undefined}
      onKeyDown={(event) => {
        if (props.onKey?.(event.key)) event.preventDefault();
      }}
    />
  );
}
