import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { ConnectionFolder } from "../io/folder.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { MainFile } from "./main-file.ts";
import { comparing } from "./named-files.ts";

/** The flags that were read of a text, and whether the files that it names, such as that of the flags, are unchanged. */
interface KnownFile {
  readonly text: string;
  readonly defaults: object;
  readonly areEqual: () => boolean;
  readonly mountFlags: readonly string[];
}

/**
 * The connections of volumes, as far as this node has their files: nodes need none. `mountFlags` are those for every mount of a volume:
 * `node.mount.mount_flags` of its connection's file if that is here and valid, or else of the main file.
 */
export function connectionFiles(main: MainFile, resolver: ValueResolver) {
  const { single, configFolder } = main.config;
  const folder = new ConnectionFolder(single === undefined ? configFolder : main.folder);
  // Parsing the YAML again for each volume would be a quarter of the cost of staging a folder.
  const known = new Map<string, KnownFile>();
  const flagsOf = async (name: string): Promise<readonly string[] | undefined> => {
    const { defaults } = main.config;
    try {
      const text = await folder.read(name);
      if (text === undefined) {
        known.delete(name);
        return undefined;
      }
      const last = known.get(name);
      if (last?.text === text && last.defaults === defaults && last.areEqual()) return last.mountFlags;
      const { readPlacement } = await import("../config/placement.ts");
      const files = comparing(resolver);
      const { mountFlags } = readPlacement(`${name}.yaml`, text, defaults, files.resolver);
      known.set(name, { text, defaults, areEqual: files.areEqual, mountFlags });
      return mountFlags;
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  };
  return {
    mountFlags: async (volumeId: string): Promise<readonly string[]> => {
      await main.refresh();
      const name = parseHandle(volumeId, "volume")?.connection ?? single ?? main.config.legacyConnection;
      return (name === undefined ? undefined : await flagsOf(name)) ?? main.config.node.mountFlags;
    },
  };
}
