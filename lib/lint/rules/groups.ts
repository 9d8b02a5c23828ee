import { type Group, selects } from "../../core/proxy.ts";
import type { Path } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import type { DocumentDiagnostic } from "../document.ts";
import { factsOf } from "../facts.ts";
import type { ConnectionFile, MainDocument } from "../lint-input.ts";
import { type Rule, report, type Theme } from "../rule.ts";
import { labelsOf, namesOf } from "./connections.ts";

const legacyConnectionMissing: Rule = {
  id: "legacy-connection-missing",
  severity: "error",
  title: "legacyConnection exists",
  why: "Existing volumes could neither be expanded nor deleted.",
};
const groupMemberMissing: Rule = {
  id: "group-member-missing",
  severity: "error",
  title: "Members of groups exist",
  why: "A member without a file gets no volumes, and csimux cannot tell whether it already has a volume of the group.",
};
const groupNameTaken: Rule = {
  id: "group-name-taken",
  severity: "error",
  title: "Groups and connections have different names",
  why: "A class with this name could refer to either.",
};
const groupEmpty: Rule = {
  id: "group-empty",
  severity: "warning",
  title: "Selectors select a connection",
  why: "A group without members cannot create volumes.",
};
const groupMixed: Rule = {
  id: "group-mixed",
  severity: "warning",
  title: "Members of a group create the same kind of volume",
  why: "A class requests one file system; a member that makes another one refuses.",
};

/** Rules about groups and names of connections in the main file. Without connection files, nothing is checked. */
export const groups: Theme = {
  rules: [legacyConnectionMissing, groupMemberMissing, groupNameTaken, groupEmpty, groupMixed],
  *check({ main, connections, sealed }) {
    const config = main?.read.partial;
    if (!config || connections.length === 0) return;
    const names = namesOf({ connections, sealed });
    const { legacyConnection: legacy } = config;
    if (legacy !== undefined && !names.includes(legacy))
      yield absent(main, legacyConnectionMissing, ["proxy", "legacyConnection"], legacy, names);
    for (const [name, group] of config.groups) yield* groupProblems(main, name, group, connections, names);
  },
};

function absent(
  main: MainDocument,
  rule: Rule,
  path: Path,
  name: string,
  names: readonly string[],
): DocumentDiagnostic {
  const near = nearest(name, names);
  return report(
    main.document,
    rule,
    path,
    `there is no connection "${name}"`,
    near ? meant(near) : `add a file ${name}.yaml`,
  );
}

function* groupProblems(
  main: MainDocument,
  name: string,
  group: Group,
  connections: readonly ConnectionFile[],
  names: readonly string[],
): Iterable<DocumentDiagnostic> {
  const path = ["proxy", "groups", name];
  const { document } = main;
  if (names.includes(name))
    yield report(document, groupNameTaken, path, `a connection has the name "${name}", too`, "rename the group", "key");
  if (group.from.kind === "members") {
    for (const [index, member] of group.from.members.entries())
      if (!names.includes(member)) yield absent(main, groupMemberMissing, [...path, "members", index], member, names);
  }
  const members = membersOf(group, connections);
  // Labels in encrypted files are unknown.
  if (group.from.kind === "selector" && members.length === 0 && names.length === connections.length)
    yield report(
      document,
      groupEmpty,
      [...path, "selector"],
      "no connection has such labels",
      labelAdvice(connections),
    );
  const kinds = new Set(members.flatMap(member => kindOfVolumes(member) ?? []));
  if (kinds.size > 1) {
    const message = `members create different kinds of volumes (${[...kinds].join(", ")}), so one class cannot use them all`;
    yield report(document, groupMixed, path, message, "group connections of one kind", "key");
  }
}

/** The existing labels, to choose from. */
function labelAdvice(connections: readonly ConnectionFile[]): string {
  const all = connections.flatMap(each => Object.entries(labelsOf(each)).map(([key, value]) => `${key}=${value}`));
  const labels = [...new Set(all)].sort();
  if (labels.length === 0) return 'no connection has any; set "proxy.perDriver.labels" in the connection files';
  return `there are: ${labels.slice(0, 10).join(", ")}${labels.length > 10 ? ", …" : ""}`;
}

/** How nodes use the volumes of a connection. */
function kindOfVolumes(member: ConnectionFile): string | undefined {
  const facts = factsOf(member);
  return facts && (facts.access.kinds.includes("block") ? "disks" : (facts.protocol ?? "any"));
}

/** The members of a group among the given connections. */
export function membersOf({ from }: Group, connections: readonly ConnectionFile[]): readonly ConnectionFile[] {
  if (from.kind === "members") return connections.filter(({ name }) => from.members.includes(name));
  return connections.filter(connection => selects(from.selector, labelsOf(connection)));
}
