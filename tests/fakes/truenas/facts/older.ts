import type { Facts, Fields, MethodFacts, Type } from "./facts.ts";

/**
 * Versions before 24.10 have no facts of their own: they have those of 24.10, apart from the fields here, which csimux sends to them or
 * must not send.
 */

/** Fields that a version lacks. CORE has no user properties and makes no ancestors (plugins/pool.py of TN-12.0-U8.1, TN-13.0-U6.3, TS-21.08-BETA.1, TS-22.02.4 and TS-22.12.4.2). */
export const fieldsSince: Readonly<Record<string, number>> = {
  user_properties: 2108,
  user_properties_update: 2108,
  create_ancestors: 2108,
  snapdev: 2212,
};

/** The fields of an older version's method. */
function fieldsOf(number: number, method: string, fields: Fields): Fields {
  if (method.startsWith("pool.dataset."))
    return Object.fromEntries(Object.entries(fields).filter(([key]) => number >= (fieldsSince[key] ?? 0)));
  // CORE clones without properties (plugins/zfs.py of TN-13.0-U6.3).
  if (method === "zfs.snapshot.clone" && number < 2000) {
    const { dataset_properties: _, ...rest } = fields;
    return rest;
  }
  if (method !== "sharing.nfs.create") return fields;
  // One path from 22.12 on, and no "quiet" from 23.10 on (plugins/nfs.py of TS-22.02.4, TS-22.12.4.2 and TS-23.10.2).
  const quiet: Fields = { quiet: ["default", "bool", false] };
  if (number >= 2212) return number < 2310 ? { ...fields, ...quiet } : fields;
  const { path: _, aliases: _aliases, ...rest } = fields;
  return { ...rest, ...quiet, paths: ["required", { list: "str" }], alldirs: ["default", "bool", false] };
}

/** The facts about a version before 24.10, made from those of 24.10. */
export function before2410(facts: Facts, number: number): Facts {
  const changed = (method: string, type: Type): Type => {
    const named = typeof type === "string" ? facts.types[type] : type;
    return typeof named === "object" && "of" in named ? { of: fieldsOf(number, method, named.of) } : type;
  };
  const methods = Object.entries(facts.methods).map(([name, method]): [string, MethodFacts] => [
    name,
    { ...method, args: method.args.map(([key, [mark, type, value]]) => [key, [mark, changed(name, type), value]]) },
  ]);
  return { ...facts, methods: Object.fromEntries(methods) };
}
