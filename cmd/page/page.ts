import { createHash } from "node:crypto";
import type { ClusterFacts } from "../../lib/config/cluster.ts";
import { age, size } from "../../lib/core/amounts.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import { claimFinder } from "../../lib/core/place.ts";
import { allReasons, reasonText, severityWords } from "../../lib/health/reasons.ts";
import type { HealthStatus } from "../../lib/observe/health.ts";
import type { StatusAnswer } from "../../lib/observe/status.ts";
import { problemsOf, summary, worstFirst } from "../status/problems.ts";
import { someOf } from "../terminal/table.ts";
import { connections, groups } from "./connections.ts";
import { copies, copyProblems } from "./copies.ts";
import script from "./filter.js" with { type: "text" };
import { type Html, html, type Part, trusted } from "./html.ts";
import { mapStyle, mapSvg, type Tone } from "./map.ts";
import style from "./page.css" with { type: "text" };
import { section, table, toned, unknown, wide } from "./parts.ts";
import { reachMap, toneOf } from "./places.ts";
import { type Strays, straysOf } from "./strays.ts";

const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const styles = style + mapStyle;

/** The policy of the page (CSP 3): nothing but its own style and script, nothing is loaded or sent. */
export const policy = `default-src 'none'; style-src ${hash(styles)}; script-src ${hash(script)}; base-uri 'none'; form-action 'none'`;

/**
 * A status as one page for people, complete without its script. Everything that comes from outside is escaped. `isServed`: it can be loaded
 * again, which its script does each minute unless its reader filters or has opened a list.
 */
export function pageText(answer: StatusAnswer, cluster: ClusterFacts | undefined, isServed = false): string {
  const { name, version, modes, host, node, started, now, details } = answer;
  const strays = straysOf(answer, cluster);
  const map = reachMap({ connections: answer.connections, prefix: details.prefix, nodes: cluster?.nodes });
  const sections = [
    section("problems", "Problems", problems(answer, strays)),
    section("connections", "Connections", connections(answer)),
    section("groups", "Groups", groups(answer)),
    section(
      "map",
      "Who reaches what",
      answer.connections.length > 0 && [
        wide("Map of places and connections", mapSvg(map)),
        cluster?.problems.map(each => html`<p class="dim">${each}</p>`),
      ],
    ),
    section("copies", "Copies between connections", copies(answer)),
    section("volumes", "Volumes", volumes(answer, cluster, strays)),
    section("failures", "Last failed calls", failures(answer)),
    section("calls", "In progress", running(answer)),
  ].filter(each => each !== undefined);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${name}: status of csimux</title>
<style>${trusted(styles)}</style>
</head>
<body data-refresh="${isServed && "60"}">
<a class="skip" href="#problems">Skip to the content</a>
<header>
<h1>${name}</h1>
<p>${summary(answer)}</p>
<p class="dim">csimux ${version}, ${modes.join(" and ")}${host !== undefined && ` ${host}`}${node !== undefined && ` on ${node}`}, up for ${age(started, now)}; as of <time datetime="${now}">${now.replace("T", " ").replace(/\.\d+Z$/, " UTC")}</time>${isServed && html` · <a href="">refresh</a>`}</p>
<nav aria-label="Sections"><ul>${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
</header>
<main>
<div class="filter" role="search" hidden><label for="filter">Filter by name</label><input id="filter" type="search" autocomplete="off" spellcheck="false"><span class="dim" role="status"></span></div>
${sections.map(({ text }) => text)}
</main>
<script>${trusted(script)}</script>
</body>
</html>
`.text;
}

/** The most volumes listed for each condition. */
const mostAlike = 10;

/** What is wrong, the worst first, and what to do. */
function problems(answer: StatusAnswer, strays: readonly Strays[]): Html {
  const { connections: all, health, folderProblem, mainProblem, now } = answer;
  const item = (tone: Tone, subject: string, text: string, remedy: string | undefined) =>
    html`<li data-row class="${tone}"><strong>${toned(tone, subject)}</strong><p>${text}</p>${remedy && html`<p><strong>What to do:</strong> ${remedy}</p>`}</li>`;
  const folder = [
    folderProblem !== undefined &&
      item("bad", "Connection files", folderProblem, "make the folder readable; csimux reads it again by itself"),
    mainProblem !== undefined && item("warning", "Main file", mainProblem, "correct the file"),
  ].filter(each => each !== false);
  const lost = strays.flatMap(({ connection, lost: gone }) => [
    ...gone.slice(0, mostAlike).map(({ claim, volume, handle }) => {
      const text = `its volume is lost: the PersistentVolume ${volume} names ${handle}, which connection "${connection}" does not have`;
      return item(
        "bad",
        claim ?? volume,
        text,
        "find out on the storage system what deleted or renamed it, and restore it",
      );
    }),
    ...(gone.length > mostAlike
      ? [html`<li data-row class="bad"><p>and ${gone.length - mostAlike} more lost volumes of ${connection}</p></li>`]
      : []),
  ]);
  const orphaned = strays.flatMap(({ connection, orphaned: left }) =>
    left.length === 0
      ? []
      : [
          item(
            "warning",
            connection,
            `${left.length} volume${left.length === 1 ? "" : "s"} without a PersistentVolume: ${someOf(left, 3)}`,
            "kubectl csimux volumes orphans lists them, and says how to delete or adopt them",
          ),
        ],
  );
  const ofConnections = worstFirst(all).flatMap(each =>
    problemsOf(each, now).map(({ text, remedy }) => item(toneOf(each), each.name, text, remedy)),
  );
  const alike = groupBy(health, ({ seenBy, connection, reason }) => JSON.stringify([seenBy, connection, reason]));
  const isMild = (group: readonly HealthStatus[]) => Number(group.every(each => healthTone(each) === "warning"));
  const conditions = [...alike.values()]
    .sort((a, b) => isMild(a) - isMild(b))
    .flatMap(group => [
      ...group
        .slice(0, mostAlike)
        .map(each =>
          item(
            healthTone(each),
            subjectOf(each),
            `${each.reason} (${severityWords[each.severity]}, for ${age(each.since, now)}): ${each.message}`,
            remedyOf(each),
          ),
        ),
      ...(group.length > mostAlike
        ? [html`<li data-row class="warning"><p>and ${group.length - mostAlike} more of ${group[0]?.reason}</p></li>`]
        : []),
    ]);
  const ofCopies = copyProblems(answer).map(({ target, text, advice }) => item("bad", target, text, advice));
  const shown = ofCopies.slice(0, mostAlike);
  const more = ofCopies.length - shown.length;
  const items = [
    ...[...lost, ...folder, ...ofConnections, ...conditions, ...shown],
    ...(more > 0 ? [html`<li data-row class="bad"><p>and ${more} more copies, below</p></li>`] : []),
    ...orphaned,
  ];
  return items.length === 0
    ? html`<p>${toned("good", "No problems are known.")}</p>`
    : html`<ul class="problems">${items}</ul>`;
}

const healthTone = ({ severity }: HealthStatus): Tone => (severity === "degraded" ? "warning" : "bad");

const subjectOf = ({ volume, storage, connection }: HealthStatus): string => volume ?? storage ?? connection ?? "";

const remedyOf = ({ reason }: HealthStatus): string | undefined => {
  const known = allReasons.find(each => each === reason);
  return known && reasonText(known).remedy;
};

/** The volumes by connection, each list closed until it is wanted. */
function volumes(
  { inventory, health, connections: all }: StatusAnswer,
  cluster: ClusterFacts | undefined,
  strays: readonly Strays[],
): Part {
  if (!inventory) return all.length > 0 && html`<p>The volumes were not listed.</p>`;
  const claimOf = claimFinder(cluster?.claims ?? []);
  const conditions = groupBy(
    health.filter(each => each.volume !== undefined),
    each => each.volume,
  );
  const columns = [
    { title: "Volume" },
    ...(cluster?.claims ? [{ title: "Claim" }] : []),
    ...[{ title: "Size", kind: "number" }, { title: "Snapshots", kind: "number minor" }, { title: "Health" }],
  ];
  const lostOf = (connection: string) => strays.find(each => each.connection === connection)?.lost ?? [];
  const isEmpty = ({ connection, volumes: found, problem }: (typeof inventory)[number]): boolean =>
    found.length === 0 && problem === undefined && lostOf(connection).length === 0;
  const empty = inventory.filter(isEmpty).map(({ connection }) => connection);
  const lists = inventory
    .filter(each => !isEmpty(each))
    .map(({ connection, volumes: found, problem }) => {
      // Of a storage system that cannot be checked, the health of its volumes is unknown.
      const healthy = all.find(({ name }) => name === connection)?.storage?.state === "good" ? "good" : unknown;
      const rows = found.map(({ id, place, bytes, snapshots }): readonly Part[] => {
        const claim = claimOf({ id, place });
        const wrong = conditions.get(id) ?? [];
        return [
          id.startsWith(`v:${connection}/`) ? id.slice(connection.length + 3) : id,
          ...(cluster?.claims
            ? [claim?.claim ?? (claim ? `released (${claim.volume})` : toned("warning", "orphaned"))]
            : []),
          bytes > 0 ? size(bytes) : unknown,
          snapshots ?? unknown,
          wrong.length === 0 ? healthy : wrong.map(each => html`${toned(healthTone(each), each.reason)} `),
        ];
      });
      const lost = lostOf(connection);
      for (const { handle, claim } of lost)
        rows.push([handle.slice(connection.length + 3), claim, unknown, unknown, toned("bad", "lost")]);
      const unhealthy = found.filter(({ id }) => conditions.has(id)).length;
      const count =
        problem !== undefined && found.length === 0
          ? toned("warning", "not listed")
          : html`${found.length} volume${found.length !== 1 && "s"}${problem !== undefined && html`, ${toned("warning", "not all")}`}`;
      const wrong = html`${unhealthy > 0 && html`, ${toned("bad", `${unhealthy} with problems`)}`}${lost.length > 0 && html`, ${toned("bad", `${lost.length} lost`)}`}`;
      return html`<details><summary><strong>${connection}</strong>: ${count}${wrong}</summary>${problem !== undefined && html`<p data-row>${connection}: ${problem}</p>`}${
        rows.length > 0 &&
        table(`Volumes of ${connection}`, columns, rows, [
          ...found.map(({ id }) => id),
          ...lost.map(({ handle }) => handle),
        ])
      }</details>`;
    });
  return html`${lists}${empty.length > 0 && html`<p data-row>No volumes: ${empty.join(", ")}</p>`}`;
}

function failures({ connections: all, now }: StatusAnswer): Part {
  const failed = all.flatMap(({ name, lastFailure }) => (lastFailure ? [{ name, ...lastFailure }] : []));
  if (failed.length === 0) return undefined;
  const columns = [
    { title: "Connection" },
    { title: "Call" },
    { title: "When" },
    { title: "Code", kind: "minor" },
    { title: "Message" },
  ];
  const rows = failed
    .sort((a, b) => (a.at > b.at ? -1 : 1))
    .map(({ name, method, at, code, message }) => [name, method, `${age(at, now)} ago`, code, message]);
  return table("Last failed calls", columns, rows);
}

function running({ calls, jobs, now }: StatusAnswer): Part {
  const rows = [
    ...calls.map(({ method, connection, object, since }) => [method, connection, object, age(since, now)]),
    ...jobs.map(({ what, since }) => ["work", undefined, what, age(since, now)]),
  ];
  if (rows.length === 0) return undefined;
  return table(
    "In progress",
    [{ title: "Call" }, { title: "Connection", kind: "minor" }, { title: "Object" }, { title: "For" }],
    rows,
  );
}
