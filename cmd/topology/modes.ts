import type { Segments } from "../../lib/core/access.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import type { Paint } from "../../lib/lint/format/text.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import type { FlagSetting, PlacementAnswer, Scenario } from "../../lib/topology/reach.ts";
import { someOf } from "../terminal/table.ts";
import type { TopologyView } from "./view.ts";

/** What becomes of claims of the connection, or of each class. */
export function modesText({ modes, classes, prefix }: TopologyView, tint: Paint): string {
  const ofClasses = classes.map(each =>
    each.modes.length > 0 ? `class ${each.name}\n${settingsText(each.modes, prefix, tint)}` : "",
  );
  return [settingsText(modes, prefix, tint), ...ofClasses].filter(part => part !== "").join("\n");
}

/** What becomes of claims under each setting of external-provisioner; settings that change nothing stand together. */
function settingsText(modes: readonly FlagSetting[], prefix: string, tint: Paint): string {
  const groups = groupBy(modes, ({ binding, scenarios: courses }) =>
    JSON.stringify([binding, courses.map(({ nodes, request }) => [nodes, request])]),
  );
  return [...groups.values()].map(group => modeText(group, prefix, tint)).join("");
}

function modeText(group: readonly FlagSetting[], prefix: string, tint: Paint): string {
  const [first] = group;
  if (!first) return "";
  const courses = first.scenarios.map(course => courseText(course, prefix, tint)).join("");
  return `${tint.strong(first.binding)}, ${settings(group)}\n${courses}`;
}

/** The flags that make the difference. */
function settings(group: readonly FlagSetting[]): string {
  const words = (["strict", "immediate"] as const).flatMap(flag => {
    const values = new Set(group.map(mode => mode[flag]));
    return values.size === 1 ? [`--${flag}-topology=${[...values].join("")}`] : [];
  });
  return words.length > 0 ? words.join(" ") : "whatever the flags";
}

function courseText({ nodes, request, answer, elsewhere }: Scenario, prefix: string, tint: Paint): string {
  const who = nodes.length > 0 ? `  pod on ${someOf(nodes)}\n` : "";
  if ("refusal" in request) return `${who}    nothing is sent: ${tint.warning(request.refusal)}\n`;
  const { demand } = request;
  const sent = demand
    ? `    requisite  ${terms(demand.requisite, prefix)}\n    preferred  ${terms(demand.preferred, prefix)}\n`
    : "    sent without topology\n";
  const note = elsewhere
    ? `               ${tint.warning("not usable on this node: the pod moves, or stays pending")}\n`
    : "";
  return `${who}${sent}    answer     ${answer ? answerText(answer, prefix, tint) : "-"}\n${note}`;
}

function answerText(answer: PlacementAnswer, prefix: string, tint: Paint): string {
  if ("error" in answer) {
    const { code, message } = answer.error;
    const refused = code === "resource-exhausted" ? "refused, and another node is tried" : "refused";
    return `${tint.error(refused)}: ${message}`;
  }
  const volumes = answer.candidates.map(
    ({ connection, accessibleTopology: places }) =>
      `${connection}, ${places.length === 0 ? "usable everywhere" : `usable in ${terms(places, prefix)}`}`,
  );
  return `volume on ${volumes.join("; or on ")}`;
}

const most = 6;

/** Terms as alternatives, shortened where a cluster has many. */
function terms(all: readonly Segments[], prefix: string): string {
  const shown = all.slice(0, most).map(term => topologyText(term, prefix));
  return `${shown.join(" | ")}${all.length > most ? ` | … (${all.length} in all)` : ""}`;
}
