import { completed } from "../facts/complete.ts";
import { CallError, Invalid } from "../failure.ts";
import { propertiesOf, property, userProperties } from "../properties.ts";
import type { Dataset, Nas } from "../state.ts";
import { cascade, destroyed } from "./dataset-removal.ts";
import { existing } from "./datasets.ts";

/**
 * zfs.resource.query and .destroy: closer to ZFS, and only the datasets that are named (plugins/zfs/resource_crud.py, query_impl.py and
 * destroy_impl.py of TS-25.10.6 and TS-26.0.0-BETA.3).
 */

/** What is asked for. */
interface Query {
  readonly paths: readonly string[];
  readonly properties: readonly string[] | null;
  readonly get_user_properties: boolean;
  readonly get_source: boolean;
  readonly get_children: boolean;
  readonly max_depth?: number;
}

const numeric = /^[0-9]+$/;

function resource(nas: Nas, dataset: Dataset, wanted: readonly string[] | null, sources: boolean, user: boolean) {
  const { name, type, createtxg, guid } = dataset;
  const keys =
    wanted === null
      ? []
      : wanted.length === 0
        ? propertiesOf(type)
        : wanted.filter(key => propertiesOf(type).includes(key));
  const properties = keys.map(key => {
    const { raw, from } = property(nas, dataset, key);
    const source =
      from === undefined
        ? { type: "DEFAULT", value: null }
        : { type: from === name ? "LOCAL" : "INHERITED", value: from };
    return [
      key,
      { raw, value: numeric.test(raw) ? Number(raw) : raw === "" ? null : raw, source: sources ? source : null },
    ];
  });
  const owned = Object.entries(userProperties(nas, dataset)).map(([key, [value]]) => [key, value]);
  return {
    name,
    pool: name.split("/")[0],
    type,
    createtxg,
    guid: Number(guid),
    properties: wanted === null && nas.number >= 2600 ? null : Object.fromEntries(properties),
    user_properties: user ? Object.fromEntries(owned) : null,
    children: null,
    ...(nas.number >= 2600 ? { tier: null } : {}),
  };
}

/**
 * With children no path may be below another (validate_query_args in plugins/zfs/resource_crud.py of TS-25.10.6 and TS-26.0.0-BETA.3).
 */
function checkPaths(paths: readonly string[], children: boolean): void {
  const lower = children ? paths.find(path => paths.some(other => path.startsWith(`${other}/`))) : undefined;
  if (lower !== undefined)
    throw new Invalid([
      "zfs.resource.query",
      `Paths must be non-overlapping - no path can be relative to another when get_children is set to True.`,
      22,
    ]);
}

export function query(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = completed<Query>(nas, "zfs.resource.query", data);
  const depth = fields.max_depth ?? 0;
  checkPaths(fields.paths, fields.get_children || depth > 0);
  const found: Dataset[] = [];
  for (const path of fields.paths) {
    const dataset = nas.state.datasets[path];
    // 25.10 refuses the whole query (__query_impl_paths), 26 leaves the path out (plugins/zfs/query_impl.py:81-91 of TS-26.0.0-BETA.3).
    if (!dataset && nas.number >= 2600) continue;
    if (!dataset) throw new Invalid(["zfs.resource.query", `'${path}' not found`, 2]);
    found.push(dataset);
    // Sources of no properties (plugins/zfs/normalization.py:94 of TS-26.0.0-BETA.3; 25.10 reads an empty set).
    if (nas.number >= 2600 && (fields.properties ?? null) === null && fields.get_source)
      throw new CallError("EINVAL", "'NoneType' object has no attribute 'values'", "AttributeError");
    if (!fields.get_children && depth === 0) continue;
    const below = Object.values(nas.state.datasets).filter(each => each.name.startsWith(`${path}/`));
    const levels = (name: string): number => name.slice(path.length + 1).split("/").length;
    found.push(...below.filter(each => depth === 0 || levels(each.name) <= depth));
  }
  return found.map(each =>
    resource(nas, each, fields.properties ?? null, fields.get_source, fields.get_user_properties),
  );
}

export function destroy(nas: Nas, [data]: readonly unknown[]): unknown {
  const { path, recursive } = completed<{ readonly path: string; readonly recursive: boolean }>(
    nas,
    "zfs.resource.destroy",
    data,
  );
  if (!nas.state.datasets[path]) throw new Invalid(["zfs.resource.destroy", `'${path}' not found`, 2]);
  if (recursive) cascade(nas, existing(nas, path).name);
  else destroyed(nas, path);
  return null;
}
