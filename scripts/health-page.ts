import { allReasons, type Observer, type Reason, reasonText, type Subject } from "../lib/health/reasons.ts";
import type { Generated } from "./committed.ts";

const introduction = `# What csimux knows of health

Made by \`scripts/reference-health.ts\` from \`lib/health/reasons.ts\`. Do not edit.

Every minute (\`--health-interval\`) the controller looks at each storage as a whole, and each node at the volumes that are staged
on it. What is wrong is told in the same words everywhere: by CSI 1.13 (ControllerGetVolumeHealth, ControllerListVolumeHealth,
NodeGetVolumeHealth, NodeGetStorageHealth), as the volume condition of CSI up to 1.12 (\`--csi-version\`), in the log (a line for
each change), by \`csimux status\`, and as \`csimux_health_conditions\` in the metrics.

- Nothing flaps: a cause counts when a second look finds it still, and is gone when a second look no longer finds it.
- What concerns a storage concerns each of its volumes. A listing asks nobody for single volumes.
- A storage that cannot be looked at is no condition: the call fails with UNAVAILABLE and says why, \`csimux status\` shows it, and
  \`csimux_connection_health_unknown\` is 1. A listing over all connections treats it as \`listing\` in the main file says.
- A node tells of the storages that it has staged volumes of. Where the controller is in the same process, it also tells of those of
  other connections whose places include the node, once a volume has told their address.
- degraded: usable, not well. inaccessible: not usable; seen by a node: from there. data-loss: lost, or strongly suspected to be.
`;

const chapters: readonly (readonly [title: string, seer: Observer, of: Subject])[] = [
  ["Connections, seen by the controller (log, status and metrics only)", "controller", "connection"],
  ["Storages, seen by the controller", "controller", "storage"],
  ["Volumes, seen by the controller", "controller", "volume"],
  ["Storages, seen by a node", "node", "storage"],
  ["Volumes, seen by a node", "node", "volume"],
];

function row(reason: Reason): string {
  const { severity, cause, remedy } = reasonText(reason);
  return `| \`${reason}\` | ${severity} | ${cause} | ${remedy} |\n`;
}

function chapter([title, seer, of]: (typeof chapters)[number]): string {
  const rows = allReasons.filter(reason => reasonText(reason).seer === seer && reasonText(reason).of === of).map(row);
  return `## ${title}\n\n| Reason | How bad | What has happened | What to do |\n| --- | --- | --- | --- |\n${rows.join("")}`;
}

/** examples/health.md */
export const healthPage = (): Generated => ({
  files: new Map([["examples/health.md", `${introduction}\n${chapters.map(chapter).join("\n")}`]]),
});
