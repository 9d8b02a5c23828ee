import { CsiError } from "../core/errors.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { apply } from "../schema/apply.ts";
import { inWords } from "../schema/finding.ts";
import { merge } from "../schema/merge.ts";
import { keysOf } from "../schema/shape.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { AccessibleTopology } from "../topology/accessible-topology.ts";
import { parseYaml, withPosition } from "../yaml/parse.ts";
import { type CommonConfig, commonConfig, commonSchema } from "./common.ts";
import type { Defaults } from "./proxy.ts";

/** Placeholders for references to the environment, which need not be valid here. */
const unread: ValueResolver = { env: () => "", file: () => "" };

/**
 * Reads topology, labels and suspension from a connection file without checking the driver's own sections.
 * Throws "failed-precondition" if that part is invalid.
 */
export function readPlacement(
  file: string,
  text: string,
  defaults: Defaults,
  resolver: ValueResolver = unread,
): CommonConfig {
  const source = parseYaml(file, text);
  // Like the driver's own sections, the login for copies is not needed here.
  const keys = new Set([...keysOf(commonSchema)].filter(key => key !== "copies"));
  const known = (values: Mapping): Mapping =>
    Object.fromEntries(Object.entries(values).filter(([key]) => keys.has(key)));
  const raw = isMapping(source.value) ? source.value : {};
  const { value, findings } = apply(commonSchema, merge(commonSchema, known(defaults.values), known(raw)), resolver);
  const broken = [...source.diagnostics, ...findings.map(finding => withPosition(source, finding))].find(
    each => each.blocks,
  );
  if (value !== undefined && !broken) return commonConfig(value);
  throw new CsiError("failed-precondition", broken ? inWords(broken) : `${file} is invalid`);
}

/** The locations of a connection with the full names of their keys; undefined if the file names none. */
export const accessibleTopologyOf = (
  { topology }: Pick<CommonConfig, "topology">,
  prefix: string,
): readonly AccessibleTopology[] | undefined =>
  topology?.map(({ requirements, extra }) => ({
    requirements: Object.fromEntries(Object.entries(requirements).map(([key, value]) => [`${prefix}/${key}`, value])),
    extra,
  }));
