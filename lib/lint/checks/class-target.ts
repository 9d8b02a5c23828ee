import type { ProxyConfig } from "../../config/proxy.ts";
import { problem, type SchemaFinding } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { nameOf } from "../file-name.ts";
import { type ClassObject, type ConnectionFile, type LintInput, mappingAt, textAt } from "../lint-input.ts";
import { membersOf } from "./groups.ts";

/** Which connections a class leads to, and what is wrong with its `connection`. */
export interface ClassTarget {
  readonly members: readonly ConnectionFile[];
  readonly finding: SchemaFinding | undefined;
}

/** Provisioner names that surely are csimux: of classes that name a connection, and of Helm values. */
export function ownProvisioners({ classes, helm }: LintInput): ReadonlySet<string> {
  const byConnection = classes.filter(each => textAt(each.value, "parameters", "connection") !== undefined);
  const names = [
    ...byConnection.map(each => each.provisioner),
    ...helm.map(each => textAt(each.value, "csiDriver", "name")),
  ];
  return new Set(names.filter(name => name !== undefined));
}

/** Whether a class is one of csimux; others are nobody's business here. */
export const isOurs = (each: ClassObject, own: ReadonlySet<string>): boolean =>
  each.ours ||
  textAt(each.value, "parameters", "connection") !== undefined ||
  (each.provisioner !== undefined && own.has(each.provisioner));

/** Looks up the connection or group that a class names. */
export function targetOf(each: ClassObject, world: LintInput): ClassTarget {
  const path = [...each.path, "parameters", "connection"];
  const name = textAt(each.value, "parameters", "connection");
  if (name === undefined || name === "") {
    const single = world.main?.read.config?.single;
    if (single !== undefined)
      return { members: world.connections.filter(connection => connection.name === single), finding: undefined };
    // A snapshot goes where its volume is.
    if (each.kind === "snapshot") return { members: [], finding: undefined };
    const fix = 'add "connection: <name of a connection file or group>"';
    return { members: [], finding: problem("class-without-connection", path, "the class names no connection", fix) };
  }
  const direct = world.connections.filter(connection => connection.name === name);
  if (direct.length > 0) return { members: direct, finding: undefined };
  const config: ProxyConfig | undefined = world.main?.read.partial;
  const group = config?.groups.get(name);
  if (group) return { members: membersOf(group, world.connections), finding: undefined };
  const declared = Object.hasOwn(mappingAt(world.main?.proxy, "groups"), name);
  // Of a main file that is wrong as a whole the groups are not known.
  const unknown = world.main !== undefined && config === undefined;
  if (world.connections.length === 0 || declared || unknown) return { members: [], finding: undefined };
  if (world.sealed.includes(name)) return { members: [], finding: undefined };
  const names = [
    ...world.connections.map(connection => connection.name),
    ...world.sealed,
    ...(config?.groups.keys() ?? []),
  ];
  const plain = nameOf(name);
  const near = names.includes(plain) ? plain : nearest(name, names);
  const fix = near ? meant(near) : `add a file ${plain}.yaml to the connections`;
  return {
    members: [],
    finding: problem("class-connection-missing", path, `there is no connection or group "${name}"`, fix),
  };
}
