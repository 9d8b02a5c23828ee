import { CsiError } from "../../lib/core/errors.ts";
import { parseHandle } from "../../lib/core/handle.ts";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import type { Outside } from "../../lib/schema/outside.ts";
import type { MainFile } from "../main-file.ts";

/**
 * The flags that every mount of a volume gets: `node.mount.mount_flags` of its connection's file, where this node has that file
 * and can use it, or else of the main file. Nodes need no connection files.
 */
export function mountFlags(main: MainFile, outside: Outside): (volumeId: string) => Promise<readonly string[]> {
  const { single, configFolder } = main.config;
  const folder = new ConnectionFolder(single === undefined ? configFolder : main.folder);
  return async volumeId => {
    await main.refresh();
    const { legacyConnection, defaults, node } = main.config;
    const name = parseHandle(volumeId, "volume")?.connection ?? single ?? legacyConnection;
    if (name === undefined) return node.mountFlags;
    try {
      const text = await folder.read(name);
      if (text === undefined) return node.mountFlags;
      const { readPlacement } = await import("../../lib/config/placement.ts");
      return readPlacement(`${name}.yaml`, text, defaults, outside).mountFlags;
    } catch (error) {
      if (error instanceof CsiError) return node.mountFlags;
      throw error;
    }
  };
}
