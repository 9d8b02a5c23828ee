import { type Group, selects } from "../../core/proxy.ts";
import type { Path } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { factsOf } from "../facts.ts";
import type { ConnectionFile, MainDocument } from "../lint-input.ts";
import { error, type Found, type Rule, report, rulesById, type Theme, warning } from "../rule.ts";
import { labelsOf, namesOf } from "./connections.ts";

const rule = rulesById({
  "legacy-connection-missing": error(
    "legacyConnection exists",
    "Existing volumes could neither be expanded nor deleted.",
  ),
  "group-member-missing": error(
    "Members of groups exist",
    "A member without a file gets no volumes, and csimux cannot tell whether it already has a volume of the group.",
  ),
  "group-name-taken": error(
    "Groups and connections have different names",
    "A class with this name could refer to either.",
  ),
  "group-empty": warning("Selectors select a connection", "A group without members cannot create volumes."),
  "group-mixed": warning(
    "Members of a group create the same kind of volume",
    "A class requests one file system; a member that makes another one refuses.",
  ),
});

/** Rules about groups and names of connections in the main file. Without connection files, nothing is checked. */
export const groups: Theme = {
  rules: Object.values(rule),
  *check({ main, connections, sealed }) {
    const config = main?.read.partial;
    if (!config || connections.length === 0) return;
    const names = namesOf({ connections, sealed });
    const { legacyConnection: legacy } = config;
    if (legacy !== undefined && !names.includes(legacy))
      yield absent(main, rule["legacy-connection-missing"], ["proxy", "legacyConnection"], legacy, names);
    for (const [name, group] of config.groups) yield* groupProblems(main, name, group, connections, names);
  },
};

function absent(main: MainDocument, rule: Rule, path: Path, name: string, names: readonly string[]) {
  const near = nearest(name, names);
  const message = `there is no connection "${name}"`;
  return report(main.document, rule, path, message, near ? meant(near) : `add a file ${name}.yaml`);
}

function* groupProblems(
  main: MainDocument,
  name: string,
  group: Group,
  connections: readonly ConnectionFile[],
  names: readonly string[],
): Found {
  const path = ["proxy", "groups", name];
  const { document } = main;
  if (names.includes(name))
    yield report(
      document,
      rule["group-name-taken"],
      path,
      `a connection has the name "${name}", too`,
      "rename the group",
      "key",
    );
  if (group.from.kind === "members") {
    for (const [index, member] of group.from.members.entries())
      if (!names.includes(member))
        yield absent(main, rule["group-member-missing"], [...path, "members", index], member, names);
  }
  const members = membersOf(group, connections);
  // Labels in encrypted files are unknown.
  if (group.from.kind === "selector" && members.length === 0 && names.length === connections.length)
    yield report(
      document,
      rule["group-empty"],
      [...path, "selector"],
      "no connection has such labels",
      labelAdvice(connections),
    );
  const kinds = new Set(members.flatMap(member => kindOfVolumes(member) ?? []));
  if (kinds.size > 1) {
    const message = `members create different kinds of volumes (${[...kinds].join(", ")}), so one class cannot use them all`;
    yield report(document, rule["group-mixed"], path, message, "group connections of one kind", "key");
  }
}

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
