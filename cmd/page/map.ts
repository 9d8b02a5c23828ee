import { someOf } from "../terminal/table.ts";
import { type Html, html } from "./html.ts";

/** Whether a connection is fine: its colour, and a sign that does not depend on colours. */
export type Tone = "good" | "warning" | "bad";

/** Nodes with equal topologies. */
export interface Place {
  /** Such as "zone=a"; empty: no topology. */
  readonly text: string;
  /** Undefined if the nodes are unknown. */
  readonly nodes: readonly string[] | undefined;
}

/** Whether the nodes of a place reach a connection: all, some or none of them. */
export type Reach = "all" | "some" | "none" | "unknown";

/** Which places reach which connections. */
export interface ReachMap {
  readonly places: readonly Place[];
  readonly rows: readonly {
    readonly name: string;
    readonly tone: Tone;
    /** Its state, unless that is good. */
    readonly note: string;
    /** One per place. */
    readonly reach: readonly Reach[];
  }[];
}

/** The width of a character of a monospaced font of 12 pixels, in pixels. */
const em = 7.25;
const rowHeight = 24;
const columnWidth = 30;
/** The longest texts shown, in characters; the full ones are in the table of connections. */
const longest = { label: 40, place: 26, legend: 76 } as const;

/** The signs and words of a state. */
export const signs: Readonly<Record<Tone, string>> = { good: "●", warning: "▲", bad: "✕" };

/** What the colour of a row means, in the legend. */
const colourWords = [
  ["warning", `${signs.warning} ● the connection needs attention`],
  ["bad", `${signs.bad} ● the connection cannot be used`],
] as const;

const cut = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** The style of the picture. */
export const mapStyle = `.map{--fg:#1d2530;--dim:#5b6675;--line:#d5dbe3;--bg:#fff;--good:#0b6b3a;--warning:#8a5200;--bad:#b3191f;background:var(--bg)}
@media (prefers-color-scheme:dark){.map{--fg:#e6eaf0;--dim:#a3aebd;--line:#39424f;--bg:#171c23;--good:#5fd08f;--warning:#f0b357;--bad:#ff8a86}}
.map text{font:12px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;fill:var(--fg)}
.map .dim{fill:var(--dim)}.map line{stroke:var(--line)}
.map .good{fill:var(--good)}.map .warning{fill:var(--warning)}.map .bad{fill:var(--bad)}
.map .ring{fill:none;stroke:currentColor;stroke-width:1.5}.map g.good{color:var(--good)}.map g.warning{color:var(--warning)}.map g.bad{color:var(--bad)}`;

/** The map in words, a line per connection, for those who cannot see it. */
function words({ places, rows }: ReachMap): string {
  const name = ({ text }: Place) => text || "nodes without a topology";
  return rows
    .map(({ name: connection, note, reach }) => {
      const from = places.flatMap((place, index) => {
        const kind = reach[index];
        return kind === "none"
          ? []
          : [`${kind === "some" ? "some of " : kind === "unknown" ? "perhaps " : ""}${name(place)}`];
      });
      return `${connection}${note && ` (${note})`}: ${from.join(", ") || "reached from nowhere"}.`;
    })
    .join(" ");
}

/** A picture of who reaches what (SVG 1.1): connections down, places across, below them their nodes. */
export function mapSvg(map: ReachMap): Html {
  const { places, rows } = map;
  const labels = rows.map(({ name, note }) => cut(note ? `${name} (${note})` : name, longest.label));
  const left = 24 + em * Math.max(10, ...labels.map(each => each.length));
  const heads = places.map(({ text }) => cut(text || "no topology", longest.place));
  // The heads are turned by 60 degrees: sine 0.87, cosine 0.5.
  const longestHead = Math.max(4, ...heads.map(each => each.length)) * em;
  const top = Math.ceil(16 + longestHead * 0.87);
  const bottom = top + rows.length * rowHeight;
  const known = places.filter(({ nodes }) => nodes !== undefined);
  const legend = known.map(({ text, nodes = [] }) =>
    cut(`${text || "no topology"}: ${nodes.length === 0 ? "no node" : someOf(nodes)}`, longest.legend),
  );
  const legendTop = bottom + (known.length > 0 ? 52 : 28);
  const some = rows.some(({ reach }) => reach.includes("some"));
  const unknown = rows.some(({ reach }) => reach.includes("unknown"));
  const meaning = `● reachable${some ? "  ◐ from some of the nodes" : ""}  · not reachable${unknown ? "  ? unknown" : ""}`;
  const colours = colourWords.filter(([tone]) => rows.some(each => each.tone === tone));
  const width = Math.ceil(
    Math.max(
      left + places.length * columnWidth + longestHead * 0.5 + 8,
      24 + em * Math.max(meaning.length, ...colours.map(([, text]) => text.length), ...legend.map(each => each.length)),
    ),
  );
  const height = Math.ceil(legendTop + 20 + (colours.length + legend.length) * 18);
  const x = (column: number) => Math.round(left + columnWidth * (column + 0.5));
  const y = (row: number) => Math.round(top + rowHeight * (row + 0.5));
  const right = Math.ceil(left + places.length * columnWidth);
  const grid = rows.map((_, row) => html`<line x1="8" x2="${right}" y1="${y(row) + 12}" y2="${y(row) + 12}"/>`);
  const marks = rows.map(
    ({ tone, reach }, row) => html`
<g class="${tone}"><text class="${tone}" x="8" y="${y(row) + 4}">${signs[tone]}</text><text class="${tone === "good" ? "" : tone}" x="24" y="${y(row) + 4}">${labels[row]}</text>${reach.map((each, column) => mark(each, tone, x(column), y(row)))}</g>`,
  );
  const counts = known.length > 0 && [
    html`<text class="dim" x="24" y="${bottom + 18}">nodes</text>`,
    ...places.map(
      ({ nodes }, column) =>
        html`<text class="dim" text-anchor="middle" x="${x(column)}" y="${bottom + 18}">${nodes?.length}</text>`,
    ),
  ];
  const titles = heads.map(
    (head, column) =>
      html`<text transform="translate(${x(column)} ${Math.round(top) - 6}) rotate(-60)"><title>${places[column]?.text}</title>${head}</text>`,
  );
  const lines = [...colours.map(([tone, text]) => [tone, text]), ...legend.map(line => ["", line])].map(
    ([tone, line], index) => html`<text class="${tone}" x="8" y="${legendTop + 20 + index * 18}">${line}</text>`,
  );
  const title = "Which places reach which connections";
  return html`<svg xmlns="http://www.w3.org/2000/svg" class="map" role="img" aria-labelledby="map-title map-words" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><title id="map-title">${title}</title><desc id="map-words">${words(map)}</desc>
${grid}${titles}${marks}${counts}
<g class="good"><text class="dim" x="8" y="${legendTop}">${meaning}</text></g>
${lines}</svg>`;
}

function mark(reach: Reach, tone: Tone, x: number, y: number): Html {
  if (reach === "unknown") return html`<text class="bad" text-anchor="middle" x="${x}" y="${y + 4}">?</text>`;
  if (reach === "none") return html`<circle class="dim" cx="${x}" cy="${y}" r="1.5"/>`;
  if (reach === "all") return html`<circle class="${tone}" cx="${x}" cy="${y}" r="6"/>`;
  return html`<circle class="ring" cx="${x}" cy="${y}" r="6"/><path class="${tone}" d="M${x} ${y - 6}a6 6 0 0 0 0 12z"/>`;
}
