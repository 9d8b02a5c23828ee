import type { GenericSchema } from "valibot";
import { connectionNameForm, isConnectionName } from "../core/handle.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import { type Applied, apply } from "../schema/apply.ts";
import { type Diagnostic, failure, type Path, type SchemaFinding } from "../schema/finding.ts";
import { inheritable, merge } from "../schema/merge.ts";
import { keysOf } from "../schema/shape.ts";
import { whereElse } from "../schema/unknown-keys.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { parseYaml, withPosition, type YamlSource } from "../yaml/parse.ts";
import { chooseModule, ofOtherDriver } from "./choose-driver.ts";
import { type CommonConfig, commonConfig, commonSchema } from "./common.ts";
import type { Defaults } from "./proxy.ts";

/** One valid connection file. */
export interface ConnectionConfig extends CommonConfig {
  readonly name: string;
  readonly module: DriverModule;
  /** The driver's own sections, as parsed by the module's schema; for `module.open`. */
  readonly settings: unknown;
}

/** The result of reading a connection file. */
export interface ReadConnection {
  readonly name: string;
  readonly source: YamlSource;
  /** Undefined if a diagnostic blocks. */
  readonly config: ConnectionConfig | undefined;
  /** The module of the file's `driver:`, known even if the rest of the file is wrong. */
  readonly module: DriverModule | undefined;
  /** File and defaults together, in the schema's spelling; for further rules. */
  readonly normalized: Mapping;
  readonly diagnostics: readonly Diagnostic[];
}

const commonKeys = [...keysOf(commonSchema)];

/**
 * Reads a connection file: common keys and the driver's own, merged over the defaults of the main file. Pure; never
 * throws. `file` appears only in messages; `name` is the connection's.
 */
export function readConnection(
  name: string,
  file: string,
  text: string,
  defaults: Defaults,
  resolver: ValueResolver,
  modules: readonly DriverModule[],
): ReadConnection {
  return readConnectionSource(name, parseYaml(file, text), defaults, resolver, modules);
}

/** Like readConnection, for a parsed document. */
export function readConnectionSource(
  name: string,
  source: YamlSource,
  defaults: Defaults,
  resolver: ValueResolver,
  modules: readonly DriverModule[],
): ReadConnection {
  const result = (
    normalized: Mapping,
    findings: readonly SchemaFinding[],
    rest: Partial<ReadConnection> = {},
  ): ReadConnection => ({
    name,
    source,
    config: undefined,
    module: undefined,
    normalized,
    diagnostics: [...source.diagnostics, ...findings.map(finding => withPosition(source, finding))],
    ...rest,
  });
  if (source.diagnostics.some(each => each.blocks)) return result({}, []);
  const raw = source.value;
  const chosen = chooseModule(name, raw, modules);
  if ("finding" in chosen) return result(isMapping(raw) ? raw : {}, [chosen.finding]);
  const { module, driver, file } = chosen;
  const schema = module.schema;
  const ofOther = (finding: SchemaFinding) => ofOtherDriver(finding, driver, modules);
  const own = apply(schema, sectionsOf(schema, driver, file, defaults), resolver, commonKeys, ofOther);
  const common = apply(commonSchema, commonOf(file, defaults), resolver);
  const found = [...nameFindings(name), ...common.findings, ...own.findings, ...collisions(common, defaults.prefix)];
  const findings = found.flatMap(finding => fromDefaults(finding, file, defaults)).map(ofCommonPart);
  const normalized = { ...mapping(own.normalized), ...mapping(common.normalized) };
  if (findings.some(each => each.blocks) || common.value === undefined || own.value === undefined)
    return result(normalized, findings, { module });
  const config = { ...commonConfig(common.value), name, module, settings: own.value };
  return result(normalized, findings, { module, config });
}

/** Suggests the section of a common key that is at the top level for lack of indentation. */
function ofCommonPart(finding: SchemaFinding): SchemaFinding {
  const [key, ...below] = finding.path;
  if (finding.rule !== "unknown-key" || below.length > 0) return finding;
  const elsewhere = whereElse(commonSchema, String(key));
  return elsewhere === undefined
    ? finding
    : { ...finding, fix: `it belongs under "${elsewhere}"; check the indentation` };
}

const has = (value: unknown, path: Path): boolean => {
  const [step, ...rest] = path;
  if (step === undefined) return true;
  if (Array.isArray(value)) return Number(step) < value.length && has(value[Number(step)], rest);
  return isMapping(value) && Object.hasOwn(value, step) && has(value[step], rest);
};

/** Marks findings about values of the main file; those that do not block are reported only there. */
function fromDefaults(finding: SchemaFinding, file: Mapping, { values }: Defaults): readonly SchemaFinding[] {
  if (has(file, finding.path) || !has(values, finding.path)) return [finding];
  return finding.blocks ? [{ ...finding, message: `${finding.message} (inherited from the main file)` }] : [];
}

function nameFindings(name: string): readonly SchemaFinding[] {
  if (isConnectionName(name)) return [];
  const message = `"${name}" is not a valid connection name`;
  return [failure("bad-connection-name", [], message, `use ${connectionNameForm}`)];
}

const mapping = (value: unknown): Mapping => (isMapping(value) ? value : {});

const pick = (values: Mapping, wanted: (key: string) => boolean): Mapping =>
  Object.fromEntries(Object.entries(values).filter(([key]) => wanted(key)));

const isCommon = (key: string): boolean => commonKeys.includes(key);

function commonOf(file: Mapping, defaults: Defaults): Mapping {
  return merge(commonSchema, pick(defaults.values, isCommon), pick(file, isCommon));
}

const inherited = new WeakMap<Defaults, Map<string, Mapping>>();

/** The driver's sections of the defaults (computed once per driver) under the file's. */
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
    schema,
    below,
    pick(file, key => !isCommon(key)),
  );
}

/** An `extra` label must not contradict a required key. */
function collisions(common: Applied<unknown>, prefix: string): readonly SchemaFinding[] {
  const places = mapping(mapping(mapping(common.normalized)["proxy"])["perDriver"])["topology"];
  if (!Array.isArray(places)) return [];
  return places.flatMap((place: unknown, index) =>
    Object.keys(mapping(mapping(place)["extra"]))
      .filter(label => label.startsWith(`${prefix}/`))
      .map(label => {
        const path = ["proxy", "perDriver", "topology", index, "extra", label];
        const text = `"${label}" uses the prefix of csimux's own keys`;
        return failure("extra-collides", path, text, "put the key under requirements, without prefix", "key");
      }),
  );
}
