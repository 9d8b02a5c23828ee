import { setImmediate as turn } from "node:timers/promises";
import type { ApiRow } from "../api-error.ts";
import { nameOf, type System, withSnapshotResources } from "./queries.ts";

/** Asks for rows of datasets by their names; what does not exist has none. */
type Rows = (system: System, names: readonly string[], properties: readonly string[]) => Promise<readonly ApiRow[]>;

interface Gathered {
  readonly names: Set<string>;
  readonly properties: Set<string>;
  readonly rows: Promise<readonly ApiRow[]>;
}

/**
 * Sends what one call asks for at one moment as one request, from 26 on: it leaves out what does not exist, where 25.10 refuses the whole
 * request. A call is known by its signal, so that the end of one takes nothing from another.
 */
export function gathering(ask: Rows): Rows {
  const open = new WeakMap<AbortSignal, Gathered>();

  function begun(system: System): Gathered {
    const [names, properties] = [new Set<string>(), new Set<string>()];
    const rows = turn().then(() => {
      open.delete(system.signal);
      return ask(system, [...names], [...properties]);
    });
    const gathered = { names, properties, rows };
    open.set(system.signal, gathered);
    return gathered;
  }

  return async (system, names, properties) => {
    if (system.version < withSnapshotResources || names.length === 0) return ask(system, names, properties);
    const gathered = open.get(system.signal) ?? begun(system);
    for (const name of names) gathered.names.add(name);
    for (const property of properties) gathered.properties.add(property);
    return (await gathered.rows).filter(row => names.includes(nameOf(row)));
  };
}
