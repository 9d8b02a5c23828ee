import type { GenericSchema } from "valibot";
import { isConnectionName } from "../core/handle.ts";
import type { DriverModule } from "../drivers/module.ts";
import { type Applied, apply } from "./apply.ts";
import { type CommonConfig, commonConfig, commonSchema } from "./common.ts";
import { type Diagnostic, type Finding, failure, type Path } from "./finding.ts";
import { isMapping, type Mapping } from "./mapping.ts";
import { inheritable, merge } from "./merge.ts";
import { meant, nearest } from "./nearest.ts";
import type { Outside } from "./outside.ts";
import type { Defaults } from "./proxy.ts";
import { shapeOf } from "./shape.ts";
import { parseYaml, placed, type Source } from "./yaml.ts";

/** One connection file, checked. */
export interface ConnectionConfig extends CommonConfig {
  readonly name: string;
  readonly module: DriverModule;
  /** The driver's own sections, as the module's schema gives them; for `module.open`. */
  readonly settings: unknown;
}

/** What reading a connection file gave. */
export interface ReadConnection {
  readonly name: string;
  readonly source: Source;
  /** Undefined when a diagnostic blocks. */
  readonly config: ConnectionConfig | undefined;
  /** The module of the file's `driver:`, known even where the rest of the file is wrong. */
  readonly module: DriverModule | undefined;
  /** File and defaults together, in the schema's spelling; for rules that look further. */
  readonly tidied: Mapping;
  readonly diagnostics: readonly Diagnostic[];
}

const commonKeys = [...keysOf(commonSchema)];

/**
 * Reads a connection file: common keys and the driver's own, over the defaults of the main file. Pure; never throws.
 * `file` is only used in messages; `name` is the connection's.
 */
export function readConnection(
  name: string,
  file: string,
  text: string,
  defaults: Defaults,
  outside: Outside,
  modules: readonly DriverModule[],
): ReadConnection {
  return readConnectionSource(name, parseYaml(file, text), defaults, outside, modules);
}

/** As readConnection, for a document that has been parsed already. */
export function readConnectionSource(
  name: string,
  source: Source,
  defaults: Defaults,
  outside: Outside,
  modules: readonly DriverModule[],
): ReadConnection {
  const result = (
    tidied: Mapping,
    findings: readonly Finding[],
    rest: Partial<ReadConnection> = {},
  ): ReadConnection => ({
    name,
    source,
    config: undefined,
    module: undefined,
    tidied,
    diagnostics: [...source.diagnostics, ...findings.map(finding => placed(source, finding))],
    ...rest,
  });
  if (source.diagnostics.some(each => each.blocks)) return result({}, []);
  const raw = source.value;
  const chosen = findModule(name, raw, modules);
  if ("finding" in chosen) return result(isMapping(raw) ? raw : {}, [chosen.finding]);
  const { module, driver, file } = chosen;
  const schema = module.schema(driver);
  const own = apply(schema, sectionsOf(schema, driver, file, defaults), outside, commonKeys);
  const common = apply(commonSchema, commonOf(file, defaults), outside);
  const found = [...nameFindings(name), ...common.findings, ...own.findings, ...collisions(common, defaults.prefix)];
  const findings = found
    .flatMap(finding => fromDefaults(finding, file, defaults))
    .map(finding => ofOtherDriver(finding, driver, modules));
  const tidied = { ...mapping(own.tidied), ...mapping(common.tidied) };
  if (findings.some(each => each.blocks) || common.value === undefined || own.value === undefined) {
    return result(tidied, findings, { module });
  }
  const config = { ...commonConfig(common.value), name, module, settings: own.value };
  return result(tidied, findings, { module, config });
}

type Found =
  | { readonly finding: Finding }
  | { readonly module: DriverModule; readonly driver: string; readonly file: Mapping };

const onlyIscsi = 'use "synology-iscsi", or "nfs-client" and "smb-client" with a mounted share';

/** Drivers that exist elsewhere and will not come: what is the matter, and what to do instead. */
const refused: ReadonlyMap<unknown, readonly [string, string]> = new Map([
  ["proxy", ["a connection cannot be a proxy itself", "name the driver of the storage"]],
  ["synology-nfs", ['"synology-nfs" answers no call in democratic-csi either', onlyIscsi]],
  ["synology-smb", ['"synology-smb" answers no call in democratic-csi either', onlyIscsi]],
  [
    "containerd-oci-ephemeral-inline",
    ["csimux does not serve inline volumes of container images", "use image volumes of Kubernetes (1.31 and newer)"],
  ],
  ["vhd-ephemeral-inline", ["csimux does not run on Windows nodes", "keep democratic-csi for these volumes"]],
]);

function findModule(name: string, raw: unknown, modules: readonly DriverModule[]): Found {
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
  const names = modules.flatMap(each => each.names);
  const near = nearest(String(driver), names);
  const known = near ? meant(near) : `known drivers: ${names.join(", ")}`;
  const [message, fix] = refused.get(driver) ?? [`unknown driver "${String(driver)}"`, known];
  return { finding: failure("unknown-driver", ["driver"], message, fix) };
}

const has = (value: unknown, path: Path): boolean => {
  const [step, ...rest] = path;
  if (step === undefined) return true;
  if (Array.isArray(value)) return Number(step) < value.length && has(value[Number(step)], rest);
  return isMapping(value) && Object.hasOwn(value, step) && has(value[step], rest);
};

/** A finding about a value of the main file says so; what does no harm is told there only. */
function fromDefaults(finding: Finding, file: Mapping, { values }: Defaults): readonly Finding[] {
  if (has(file, finding.path) || !has(values, finding.path)) return [finding];
  return finding.blocks ? [{ ...finding, message: `${finding.message} (inherited from the main file)` }] : [];
}

/** A section that only other drivers have names one of them: mostly `driver` is wrong, not the section. */
function ofOtherDriver(finding: Finding, driver: string, modules: readonly DriverModule[]): Finding {
  const [key, ...below] = finding.path;
  if (finding.rule !== "unknown-key" || below.length > 0 || key === undefined) return finding;
  const names = modules.flatMap(module => module.names.map(name => ({ name, keys: [...keysOf(module.schema(name))] })));
  const others = names.filter(({ keys }) => keys.includes(String(key))).map(({ name }) => name);
  const other = nearest(driver, others) ?? others[0];
  if (other === undefined) return finding;
  const fix = `remove it, or correct "driver": ${other} has such a section`;
  return { ...finding, message: `"${String(key)}" is no section of ${driver}`, fix };
}

function nameFindings(name: string): readonly Finding[] {
  if (isConnectionName(name)) return [];
  const message = `"${name}" cannot name a connection`;
  return [
    failure(
      "bad-connection-name",
      [],
      message,
      'use 1 to 63 letters, digits, ".", "_", "-", a letter or digit at both ends',
    ),
  ];
}

function keysOf(schema: GenericSchema): Iterable<string> {
  const shape = shapeOf(schema);
  return shape.kind === "mapping" ? shape.keys.keys() : [];
}

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});

const pick = (values: Mapping, wanted: (key: string) => boolean): Mapping =>
  Object.fromEntries(Object.entries(values).filter(([key]) => wanted(key)));

const isCommon = (key: string): boolean => commonKeys.includes(key);

function commonOf(file: Mapping, defaults: Defaults): Mapping {
  return merge(pick(defaults.values, isCommon), pick(file, isCommon));
}

const inherited = new WeakMap<Defaults, Map<string, Mapping>>();

/** The driver's sections of the defaults (worked out once for each driver) under those of the file. */
function sectionsOf(schema: GenericSchema, driver: string, file: Mapping, defaults: Defaults): Mapping {
  const byDriver = inherited.get(defaults) ?? new Map<string, Mapping>();
  inherited.set(defaults, byDriver);
  const below =
    byDriver.get(driver) ??
    inheritable(
      schema,
      pick(defaults.values, key => !isCommon(key)),
    );
  byDriver.set(driver, below);
  return merge(
    below,
    pick(file, key => !isCommon(key)),
  );
}

/** An `extra` label must not say something else about a required key. */
function collisions(common: Applied<unknown>, prefix: string): readonly Finding[] {
  const places = mapping(mapping(mapping(common.tidied)["proxy"])["perDriver"])["topology"];
  if (!Array.isArray(places)) return [];
  return places.flatMap((place: unknown, index) =>
    Object.keys(mapping(mapping(place)["extra"]))
      .filter(label => label.startsWith(`${prefix}/`))
      .map(label => {
        const path = ["proxy", "perDriver", "topology", index, "extra", label];
        return failure(
          "extra-collides",
          path,
          `"${label}" has the prefix of csimux's own keys`,
          "put the key under requirements, without prefix",
          "key",
        );
      }),
  );
}
