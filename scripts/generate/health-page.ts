import { allReasons, type Observer, type Reason, reasonText, type Subject } from "../../lib/health/reasons.ts";
import type { Generated } from "./generated.ts";

const introduction = `# Health conditions

Made by \`scripts/generate.ts\` from \`lib/health/reasons.ts\`: do not edit.

Every minute (\`--health-interval\`), the controller checks each storage system, and each node checks the volumes staged on it. A problem
is reported with the same reason everywhere: by CSI 1.13 (ControllerGetVolumeHealth, ControllerListVolumeHealth, NodeGetVolumeHealth,
NodeGetStorageHealth), as the volume condition of CSI up to 1.12 (\`--csi-version\`), in the log (one line for each change), in
\`csimux status\`, and in the metric \`csimux_health_conditions\`.

- Conditions are debounced: a condition is raised after two consecutive checks and cleared after two clean ones.
- A problem of a storage system is reported for each of its volumes. Listings do not query single volumes.
- A storage system that cannot be checked has no condition: the call fails with UNAVAILABLE and the reason, \`csimux status\` shows it, and
  \`csimux_connection_health_unknown\` is 1. For a listing over all connections, \`listing\` in the main file decides.
- A node reports on the storage systems of its staged volumes. If the controller runs in the same process, the node also reports on other
  connections that it can reach, once a volume has revealed their address.
- degraded: usable, with a problem. inaccessible: not usable (if reported by a node: from that node). data-loss: data is lost, or probably
  lost.
`;

const chapters: readonly (readonly [title: string, observer: Observer, of: Subject])[] = [
  ["Storage systems, reported by the controller", "controller", "storage"],
  ["Volumes, reported by the controller", "controller", "volume"],
  ["Storage systems, reported by a node", "node", "storage"],
  ["Volumes, reported by a node", "node", "volume"],
];

function row(reason: Reason): string {
  const { severity, cause, remedy } = reasonText(reason);
  return `| \`${reason}\` | ${severity} | ${cause} | ${remedy} |\n`;
}

function chapter([title, observer, of]: (typeof chapters)[number]): string {
  const rows = allReasons
    .filter(reason => reasonText(reason).observer === observer && reasonText(reason).of === of)
    .map(row);
  return `## ${title}\n\n| Reason | Severity | What happened | What to do |\n| --- | --- | --- | --- |\n${rows.join("")}`;
}

/** examples/guide/health.md */
export const healthPage = (): Generated => ({
  files: new Map([["examples/guide/health.md", `${introduction}\n${chapters.map(chapter).join("\n")}`]]),
});
