import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { ConnectionFolder } from "../io/folder.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { MainFile } from "./main-file.ts";

/**
 * The flags for every mount of a volume: `node.mount.mount_flags` of its connection's file if this node has that file
 * and it is valid, or else of the main file. Nodes need no connection files.
 */
export function mountFlags(main: MainFile, resolver: ValueResolver): (volumeId: string) => Promise<readonly string[]> {
  const { single, configFolder } = main.config;
  const folder = new ConnectionFolder(single === undefined ? configFolder : main.folder);
  // Parsing the YAML again for each volume would be a quarter of the cost of staging a folder.
  const known = new Map<
    string,
    { readonly text: string; readonly defaults: object; readonly flags: readonly string[] }
  >();
  return async volumeId => {
    await main.refresh();
    const { legacyConnection, defaults, node } = main.config;
    const name = parseHandle(volumeId, "volume")?.connection ?? single ?? legacyConnection;
    if (name === undefined) return node.mountFlags;
    try {
      const text = await folder.read(name);
      if (text === undefined) {
        known.delete(name);
        return node.mountFlags;
      }
      const last = known.get(name);
      if (last?.text === text && last.defaults === defaults) return last.flags;
      const { readPlacement } = await import("../config/placement.ts");
      const flags = readPlacement(`${name}.yaml`, text, defaults, resolver).mountFlags;
      known.set(name, { text, defaults, flags });
      return flags;
    } catch (error) {
      if (error instanceof CsiError) return node.mountFlags;
      throw error;
    }
  };
}
