import { age, size } from "../../lib/core/amounts.ts";
import type { ConnectionStatus, StatusAnswer } from "../../lib/observe/status.ts";
import { memberText, worstFirst } from "../status/problems.ts";
import { html, type Part } from "./html.ts";
import { table, toned, unknown } from "./parts.ts";
import { stateWords, toneOf } from "./places.ts";

/** The most good connections that are shown without being asked for. */
const mostFine = 8;

/** The connections, the worst first; many good ones are folded. */
export function connections({ connections: all, now, modes }: StatusAnswer): Part {
  if (all.length === 0)
    return html`<p>${modes.includes("controller") ? "No connections." : "No calls about a connection yet."}</p>`;
  const ago = (time: string | undefined) => (time === undefined ? "no call yet" : `${age(time, now)} ago`);
  const columns = [
    ...[
      { title: "Connection" },
      { title: "State" },
      { title: "Since", kind: "number" },
      { title: "Driver", kind: "minor" },
      { title: "Free", kind: "number" },
    ],
    ...[
      { title: "Volumes", kind: "number least" },
      { title: "Calls", kind: "number minor" },
    ],
    ...[
      { title: "Last success", kind: "minor" },
      { title: "Reachable from", kind: "minor" },
    ],
  ];
  const rowOf = (each: ConnectionStatus): readonly Part[] => [
    each.name,
    toned(toneOf(each), stateWords(each)),
    each.since !== undefined && age(each.since, now),
    each.driver ?? unknown,
    each.freeBytes === undefined
      ? unknown
      : html`<span title="${ago(each.freeBytes.at)}">${size(each.freeBytes.value)}</span>`,
    each.volumes === undefined ? unknown : html`<span title="${ago(each.volumes.at)}">${each.volumes.value}</span>`,
    each.inUse,
    ago(each.lastSuccess?.at),
    each.driver !== undefined && (each.accessibleTopology.join(" or ") || "everywhere"),
  ];
  const sorted = worstFirst(all);
  const fine = sorted.filter(each => toneOf(each) === "good");
  const isFolded = fine.length > mostFine;
  const first = sorted.filter(each => !(isFolded && toneOf(each) === "good"));
  return html`${first.length > 0 && table("Connections", columns, first.map(rowOf))}${
    isFolded &&
    html`<details><summary>${toned("good", `${fine.length} good`)}</summary>${table("Good connections", columns, fine.map(rowOf))}</details>`
  }`;
}

/** The groups, with the free space of their members. */
export function groups({ groups: all, connections: known }: StatusAnswer): Part {
  if (all.length === 0) return undefined;
  const columns = [
    { title: "Group" },
    { title: "Policy", kind: "minor" },
    { title: "Free, sum", kind: "number" },
    { title: "Members" },
  ];
  const rows = all.map(({ name, policy, members }): readonly Part[] => {
    // Members on one pool share its free space; quotas of their datasets may leave less to one of them.
    const free = new Map<string, number>();
    for (const { name: member, pool, freeBytes } of known)
      if (members.includes(member) && freeBytes)
        free.set(
          pool ?? `connection ${member}`,
          Math.max(freeBytes.value, free.get(pool ?? `connection ${member}`) ?? 0),
        );
    const total = [...free.values()].reduce((sum, each) => sum + each, 0);
    return [
      name,
      policy,
      free.size > 0 && size(total),
      members.map(each => memberText(each, known)).join(", ") || "none",
    ];
  });
  return table("Groups", columns, rows);
}
