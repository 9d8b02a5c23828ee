import type { DriverModule } from "../drivers/module.ts";
import { type Finding, failure } from "../schema/finding.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { meant, nearest } from "../schema/nearest.ts";
import { keysOf } from "../schema/shape.ts";

/** The module that a file asks for by its `driver:`, or what is wrong with that. `file` is the content as a mapping. */
export type Chosen =
  | { readonly finding: Finding }
  | { readonly module: DriverModule; readonly driver: string; readonly file: Mapping };

/** Values that no family would claim and that will not come: what is the matter, and what to do instead. */
const refused: ReadonlyMap<string, readonly [string, string]> = new Map([
  ["proxy", ["a connection cannot be a proxy itself", "name the driver of the storage"]],
  [
    "containerd-oci-ephemeral-inline",
    ["csimux does not serve inline volumes of container images", "use image volumes of Kubernetes (1.31 and newer)"],
  ],
  ["vhd-ephemeral-inline", ["csimux does not run on Windows nodes", "keep democratic-csi for these volumes"]],
]);

/** Finds the module that serves the connection of this name; `raw` is what the file holds. */
export function chooseModule(name: string, raw: unknown, modules: readonly DriverModule[]): Chosen {
  if (raw === null || raw === undefined) {
    const message = `the file of connection "${name}" is empty, or holds only comments`;
    return { finding: failure("empty-file", [], message, 'begin with "driver: <name>", or remove the file') };
  }
  if (!isMapping(raw) || raw["driver"] === undefined || raw["driver"] === null) {
    const typo = isMapping(raw) ? nearest("driver", Object.keys(raw)) : undefined;
    if (typo !== undefined)
      return { finding: failure("unknown-key", [typo], `unknown key "${typo}"`, meant("driver"), "key") };
    const fix = 'add "driver: <name>" with the name of a driver';
    return { finding: failure("missing-key", ["driver"], `connection "${name}" has no driver`, fix) };
  }
  const { driver } = raw;
  if (typeof driver !== "string") {
    return {
      finding: failure("wrong-type", ["driver"], "expected text, found something else", "write the name of one driver"),
    };
  }
  const module = modules.find(each => each.names.some(known => known === driver));
  if (module) return { module, driver, file: raw };
  const [message, fix] = refused.get(driver) ?? [`unknown driver "${driver}"`, known(driver, modules)];
  return { finding: failure("unknown-driver", ["driver"], message, fix) };
}

/** Which drivers may be meant: the most similar name, those for the same protocol, or all. */
function known(driver: string, modules: readonly DriverModule[]): string {
  const names = modules.flatMap(each => each.names);
  const near = nearest(driver, [...names, "proxy"]);
  if (near === "proxy") return `${meant(near)} That is the main file, which does not belong into the connection folder`;
  if (near !== undefined) return meant(near);
  const parts = names.filter(name => name.split("-").includes(driver.toLowerCase()));
  const begins = parts.find(name => name.startsWith(`${driver.toLowerCase()}-`));
  if (begins !== undefined) return meant(begins);
  if (parts.length > 0) return `drivers for ${driver}: ${parts.join(", ")}`;
  return `known drivers: ${names.join(", ")}`;
}

/** How many parts of two names are the same from the beginning. */
function alike(one: string, other: string): number {
  const parts = other.split("-");
  const differing = one.split("-").findIndex((part, index) => part !== parts[index]);
  return differing < 0 ? Number.POSITIVE_INFINITY : differing;
}

/** A section that only other drivers have names one of them: mostly `driver` is wrong, not the section. */
export function ofOtherDriver(finding: Finding, driver: string, modules: readonly DriverModule[]): Finding {
  const [key, ...below] = finding.path;
  if (finding.rule !== "unknown-key" || below.length > 0 || key === undefined) return finding;
  const names = modules.flatMap(module => module.names.map(name => ({ name, keys: [...keysOf(module.schema)] })));
  const others = names.filter(({ keys }) => keys.includes(String(key))).map(({ name }) => name);
  const [other] = [...others].sort((a, b) => alike(b, driver) - alike(a, driver));
  if (other === undefined) return finding;
  const fix = `remove it, or correct "driver": ${other} has such a section`;
  return { ...finding, message: `"${String(key)}" is no section of ${driver}`, fix };
}
