import type { Entries, Entry, Property } from "./zfs.ts";

/**
 * The rows of `zfs get -Hp -o name,property,value,source`, in the order in which the names appear. A row without four cells is the
 * rest of a value with a line break, which nothing of ours writes; it is left out.
 */
export function entriesOf(text: string): readonly Entry[] {
  const entries = new Map<string, Map<string, Property>>();
  for (const line of text.split("\n")) {
    const cells = line.split("\t");
    if (cells.length < 4) continue;
    const [name = "", property = ""] = cells;
    const source = cells.at(-1) ?? "";
    const value = cells.slice(2, -1).join("\t");
    const properties = entries.get(name) ?? new Map<string, Property>();
    entries.set(name, properties);
    if (value !== "-" && value !== "")
      properties.set(property, { value, own: source === "local" || source === "received" });
  }
  return [...entries].map(([name, properties]) => ({ name, properties }));
}

/** The same by name. */
export const byName = (entries: readonly Entry[]): Entries => new Map(entries.map(entry => [entry.name, entry]));
