import { isMapping, type Mapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import { failure, type SchemaFinding } from "../schema/finding.ts";
import { meant, nearest } from "../schema/nearest.ts";
import { keysOf } from "../schema/shape.ts";

/** The module of a file's `driver:`, or what is wrong with that key. `file` is the content as a mapping. */
export type Chosen =
  | { readonly finding: SchemaFinding }
  | { readonly module: DriverModule; readonly driver: string; readonly file: Mapping };

/** Drivers that csimux will not support: what is wrong, and what to do instead. */
const refused: ReadonlyMap<string, readonly [string, string]> = new Map([
  ["proxy", ["a connection cannot be a proxy", "name the driver of the storage system"]],
  [
    "containerd-oci-ephemeral-inline",
    ["csimux does not serve inline volumes of container images", "use image volumes of Kubernetes (1.31 and newer)"],
  ],
  ["vhd-ephemeral-inline", ["csimux does not run on Windows nodes", "keep democratic-csi for these volumes"]],
]);

/** Finds the module that serves the connection of this name; `raw` is the content of its file. */
export function chooseModule(name: string, raw: unknown, modules: readonly DriverModule[]): Chosen {
  if (raw === null || raw === undefined) {
    const message = `the file of connection "${name}" is empty or contains only comments`;
    return { finding: failure("empty-file", [], message, 'start with "driver: <name>", or remove the file') };
  }
  if (!isMapping(raw) || raw["driver"] === undefined || raw["driver"] === null) {
    const typo = isMapping(raw) ? nearest("driver", Object.keys(raw)) : undefined;
    if (typo !== undefined)
      return { finding: failure("unknown-key", [typo], `unknown key "${typo}"`, meant("driver"), "key") };
    const fix = 'add "driver: <name>" with the name of a driver';
    return { finding: failure("missing-key", ["driver"], `connection "${name}" has no driver`, fix) };
  }
  const { driver } = raw;
  if (typeof driver !== "string")
    return {
      finding: failure("wrong-type", ["driver"], "expected text, found something else", "write the name of one driver"),
    };
  const module = modules.find(each => each.names.some(known => known === driver));
  if (module) return { module, driver, file: raw };
  const [message, fix] = refused.get(driver) ?? [`unknown driver "${driver}"`, known(driver, modules)];
  return { finding: failure("unknown-driver", ["driver"], message, fix) };
}

/** Suggests drivers: the most similar name, those for the same protocol, or all. */
function known(driver: string, modules: readonly DriverModule[]): string {
  const names = modules.flatMap(each => each.names);
  const near = nearest(driver, [...names, "proxy"]);
  if (near === "proxy")
    return `${meant(near)} That is for the main file, which does not belong in the connection folder`;
  if (near !== undefined) return meant(near);
  const parts = names.filter(name => name.split("-").includes(driver.toLowerCase()));
  const begins = parts.find(name => name.startsWith(`${driver.toLowerCase()}-`));
  if (begins !== undefined) return meant(begins);
  if (parts.length > 0) return `drivers for ${driver}: ${parts.join(", ")}`;
  return `known drivers: ${names.join(", ")}`;
}

function alike(one: string, other: string): number {
  const parts = other.split("-");
  const differing = one.split("-").findIndex((part, index) => part !== parts[index]);
  return differing < 0 ? Number.POSITIVE_INFINITY : differing;
}

/** If only other drivers have the section, names one of them: usually `driver` is wrong, not the section. */
export function ofOtherDriver(finding: SchemaFinding, driver: string, modules: readonly DriverModule[]): SchemaFinding {
  const [key, ...below] = finding.path;
  if (finding.rule !== "unknown-key" || below.length > 0 || key === undefined) return finding;
  const names = modules.flatMap(module => module.names.map(name => ({ name, keys: [...keysOf(module.schema)] })));
  const others = names.filter(({ keys }) => keys.includes(String(key))).map(({ name }) => name);
  const [other] = [...others].sort((a, b) => alike(b, driver) - alike(a, driver));
  if (other === undefined) return finding;
  const fix = `remove it, or correct "driver": ${other} has such a section`;
  return { ...finding, message: `"${String(key)}" is not a section of ${driver}`, fix, blocks: false };
}
