import * as v from "valibot";
import { CallError, Invalid } from "../failure.ts";
import { flag, modelled, or, whole } from "../models.ts";
import { propertiesOf, property, userProperties } from "../properties.ts";
import type { Dataset, Nas } from "../state.ts";
import { cascade, destroyed } from "./dataset-removal.ts";
import { existing } from "./datasets.ts";

/**
 * zfs.resource.query and .destroy: closer to ZFS, and only the datasets that are named (plugins/zfs/resource_crud.py, query_impl.py and
 * destroy_impl.py of TS-25.10.6 and TS-26.0.0-BETA.3).
 */

const queryEntries = {
  paths: or(v.array(v.string()), []),
  properties: v.optional(v.nullable(v.array(v.string())), []),
  get_user_properties: or(flag, false),
  get_children: or(flag, false),
  nest_results: or(flag, false),
};
const query25 = v.strictObject({ ...queryEntries, get_source: or(flag, true) });
const query26 = v.strictObject({
  ...queryEntries,
  get_source: or(flag, false),
  max_depth: or(whole, 0),
  get_tier: or(flag, false),
});

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
 * assumed: its words.
 */
function checkPaths(paths: readonly string[], children: boolean): void {
  const lower = children ? paths.find(path => paths.some(other => path.startsWith(`${other}/`))) : undefined;
  if (lower !== undefined)
    throw new Invalid(["zfs.resource.query", `'${lower}' overlaps with another path, and get_children is set`, 22]);
}

export function query(nas: Nas, [data]: readonly unknown[]): unknown {
  const fields = modelled(nas.number >= 2600 ? query26 : query25, data ?? {}, "data");
  const depth = "max_depth" in fields ? fields.max_depth : 0;
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

const destroyModel = v.strictObject({ path: v.string(), recursive: or(flag, false) });

export function destroy(nas: Nas, [data]: readonly unknown[]): unknown {
  const { path, recursive } = modelled(destroyModel, data, "data");
  if (!nas.state.datasets[path]) throw new Invalid(["zfs.resource.destroy", `'${path}' not found`, 2]);
  if (recursive) cascade(nas, existing(nas, path).name);
  else destroyed(nas, path);
  return null;
}
