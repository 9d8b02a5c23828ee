import { type ClassObject, type ConnectionFile, type LintInput, mappingAt, textAt } from "./lint-input.ts";
import { namesOf } from "./rules/connections.ts";
import { membersOf } from "./rules/groups.ts";

/** Provisioner names that certainly belong to csimux: of classes with a connection, and of Helm values. */
export function ownProvisioners({ classes, helm }: LintInput): ReadonlySet<string> {
  const byConnection = classes.filter(each => textAt(each.value, "parameters", "connection") !== undefined);
  const names = [
    ...byConnection.map(each => each.provisioner),
    ...helm.map(each => textAt(each.value, "csiDriver", "name")),
  ];
  return new Set(names.filter(name => name !== undefined));
}

/** The classes of csimux. */
export function ownClasses(input: LintInput): readonly ClassObject[] {
  const own = ownProvisioners(input);
  return input.classes.filter(
    ({ inHelm, value, provisioner }) =>
      inHelm ||
      textAt(value, "parameters", "connection") !== undefined ||
      (provisioner !== undefined && own.has(provisioner)),
  );
}

/** The result of looking up the connection or group of a class. */
export type ClassTarget =
  | { readonly members: readonly ConnectionFile[] }
  /** `missing` is undefined if the class names no connection. `names` are the existing ones. */
  | { readonly missing: string | undefined; readonly names: readonly string[] };

const unknown: ClassTarget = { members: [] };

/** Looks up the connection or group of a class. Unknown ones, as in encrypted files, have no members. */
export function targetOf(each: ClassObject, input: LintInput): ClassTarget {
  const { main, connections, sealed } = input;
  const name = textAt(each.value, "parameters", "connection") || undefined;
  if (name === undefined) {
    const single = main?.read.config?.single;
    if (single !== undefined) return { members: connections.filter(connection => connection.name === single) };
    // A snapshot is made on the connection of its volume.
    return each.kind === "snapshot" || (!main && mayBeSingle(each, input))
      ? unknown
      : { missing: undefined, names: [] };
  }
  const direct = connections.filter(connection => connection.name === name);
  if (direct.length > 0) return { members: direct };
  const config = main?.read.partial;
  const group = config?.groups.get(name);
  if (group) return { members: membersOf(group, connections) };
  // The groups of a main file that is wrong as a whole are unknown.
  const isUnknown =
    connections.length === 0 ||
    (main !== undefined && config === undefined) ||
    Object.hasOwn(mappingAt(main?.proxy, "groups"), name) ||
    sealed.includes(name);
  return isUnknown ? unknown : { missing: name, names: [...namesOf(input), ...(config?.groups.keys() ?? [])] };
}

/** Whether the main file, which was not given, may configure a single driver: it is encrypted, or in a Secret that values of Helm name. */
const mayBeSingle = ({ document }: ClassObject, { helm, encrypted }: LintInput): boolean =>
  encrypted.length > 0 ||
  helm.some(
    ({ document: values, value }) =>
      values === document &&
      textAt(value, "driver", "existingConfigSecret") !== undefined &&
      textAt(value, "driver", "config", "driver") !== "proxy",
  );

/** The connections of a class; none if they are unknown. */
export function membersOfClass(each: ClassObject, input: LintInput): readonly ConnectionFile[] {
  const target = targetOf(each, input);
  return "members" in target ? target.members : [];
}
