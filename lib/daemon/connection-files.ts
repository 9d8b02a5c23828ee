import { foreignAddress } from "../core/addresses.ts";
import { CsiError } from "../core/errors.ts";
import { parseHandle } from "../core/handle.ts";
import { ConnectionFolder } from "../io/folder.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { MainFile } from "./main-file.ts";
import { comparing } from "./named-files.ts";

/** What a connection's file says to nodes. */
interface FileForNodes {
  readonly mountFlags: readonly string[];
  /** The addresses of its storage, as in contexts; empty if it names none. */
  readonly addresses: readonly string[];
}

/** What was read of a text, and whether the files that it names, such as that of mount_flags, are still the same. */
interface KnownFile {
  readonly text: string;
  readonly defaults: object;
  readonly areEqual: () => boolean;
  readonly read: FileForNodes;
}

/**
 * The connections of volumes, as far as this node has their files: nodes need none. `mountFlags` are those for every mount of a volume:
 * `node.mount.mount_flags` of its connection's file if that is here and valid, or else of the main file. `foreignAddress` is as in
 * lib/core; undefined without the file.
 */
export function connectionFiles(main: MainFile, resolver: ValueResolver) {
  const { single, configFolder } = main.config;
  const folder = new ConnectionFolder(single === undefined ? configFolder : main.folder);
  // Parsing the YAML again for each volume would be a quarter of the cost of staging a folder.
  const known = new Map<string, KnownFile>();
  const fileOf = async (name: string): Promise<FileForNodes | undefined> => {
    const { defaults } = main.config;
    try {
      const text = await folder.read(name);
      if (text === undefined) {
        known.delete(name);
        return undefined;
      }
      const last = known.get(name);
      if (last?.text === text && last.defaults === defaults && last.areEqual()) return last.read;
      const { nodeAddresses, readPlacement } = await import("../config/placement.ts");
      const files = comparing(resolver);
      const { mountFlags } = readPlacement(`${name}.yaml`, text, defaults, files.resolver);
      const read = { mountFlags, addresses: nodeAddresses(`${name}.yaml`, text, defaults, resolver) };
      known.set(name, { text, defaults, areEqual: files.areEqual, read });
      return read;
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  };
  return {
    mountFlags: async (volumeId: string): Promise<readonly string[]> => {
      await main.refresh();
      const name = parseHandle(volumeId, "volume")?.connection ?? single ?? main.config.legacyConnection;
      const file = name === undefined ? undefined : await fileOf(name);
      return file?.mountFlags ?? main.config.node.mountFlags;
    },
    foreignAddress: async (volumeId: string, context: Readonly<Record<string, string>>) => {
      // An id without a prefix may belong to an alias, whose connection nodes do not know.
      const name = parseHandle(volumeId, "volume")?.connection ?? single;
      const file = name === undefined ? undefined : await fileOf(name);
      return file && foreignAddress(name ?? "", context, file.addresses, movedHosts(main));
    },
  };
}

/** Whether the main file has a new address for a host, on nodes of any topology. */
export const movedHosts =
  ({ config }: Pick<MainFile, "config">) =>
  (host: string): boolean =>
    config.node.addresses.some(({ addresses }) => Object.hasOwn(addresses, host));
