import { type Group, selects } from "../../core/proxy.ts";
import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { factsOf } from "../facts.ts";
import type { ConnectionFile, LintInput } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { labelsOf } from "./connections.ts";

/** Rules about groups and other names of connections in the main file. Without any connection file nothing can be said. */
export function* groups({ main, connections, sealed }: LintInput): Iterable<DocumentFinding> {
  const config = main?.read.partial;
  if (!config || connections.length === 0) return;
  const names = [...connections.map(({ name }) => name), ...sealed];
  const { legacyConnection: legacy } = config;
  if (legacy !== undefined && !names.includes(legacy)) {
    yield {
      leaf: main.leaf,
      finding: absent("legacy-connection-missing", ["proxy", "legacyConnection"], legacy, names),
    };
  }
  for (const [name, group] of config.groups) {
    for (const finding of groupFindings(name, group, connections, names)) yield { leaf: main.leaf, finding };
  }
}

function absent(
  rule: string,
  path: readonly (string | number)[],
  name: string,
  names: readonly string[],
): SchemaFinding {
  const near = nearest(name, names);
  const fix = near ? meant(near) : `add a file ${name}.yaml`;
  return problem(rule, path, `there is no connection "${name}"`, fix);
}

function* groupFindings(
  name: string,
  group: Group,
  connections: readonly ConnectionFile[],
  names: readonly string[],
): Iterable<SchemaFinding> {
  const path = ["proxy", "groups", name];
  if (names.includes(name))
    yield problem("group-name-taken", path, `a connection has the name "${name}" too`, "rename the group", "key");
  if (group.from.kind === "members") {
    for (const [index, member] of group.from.members.entries()) {
      if (!names.includes(member)) yield absent("group-member-missing", [...path, "members", index], member, names);
    }
  }
  const members = membersOf(group, connections);
  // The labels of sealed files are not known.
  if (group.from.kind === "selector" && members.length === 0 && names.length === connections.length) {
    yield warning("group-empty", [...path, "selector"], "no connection has such labels", labelAdvice(connections));
  }
  const kinds = new Set(members.flatMap(member => kindOfVolumes(member) ?? []));
  if (kinds.size > 1) {
    const message = `members make different kinds of volumes (${[...kinds].join(", ")}), so one class cannot serve them all`;
    yield warning("group-mixed", path, message, "group connections of one kind", "key");
  }
}

/** The labels that there are, to choose from. */
function labelAdvice(connections: readonly ConnectionFile[]): string {
  const all = connections.flatMap(each => Object.entries(labelsOf(each)).map(([key, value]) => `${key}=${value}`));
  const labels = [...new Set(all)].sort();
  if (labels.length === 0) return 'no connection has any; set "proxy.perDriver.labels" in the connection files';
  return `there are: ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`;
}

/** How nodes reach the volumes, and as what. */
function kindOfVolumes(member: ConnectionFile): string | undefined {
  const facts = factsOf(member);
  if (!facts) return undefined;
  const { protocol, access } = facts;
  return access.kinds.includes("block") ? "disks" : (protocol ?? "any");
}

/** The connections of a group, of those that were given. */
export function membersOf({ from }: Group, connections: readonly ConnectionFile[]): readonly ConnectionFile[] {
  if (from.kind === "members") return connections.filter(({ name }) => from.members.includes(name));
  return connections.filter(connection => selects(from.selector, labelsOf(connection)));
}
