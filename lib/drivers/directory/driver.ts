import { Locks } from "../../core/locks.ts";
import { Slots } from "../../core/slots.ts";
import type { Driver } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { filesOn } from "./by-server.ts";
import { explain } from "./failures.ts";
import type { Files } from "./files.ts";
import { kinds } from "./kinds.ts";
import { Layout } from "./layout.ts";
import { carefulFiles, ownFiles } from "./own-files.ts";
import { Dress } from "./owner.ts";
import type { DirectoryKind, DirectorySettings } from "./settings.ts";
import { BaseShare } from "./share.ts";
import { Snapshots } from "./snapshots.ts";
import type { Space } from "./space.ts";
import { FolderStore } from "./store.ts";
import { Trees } from "./trees.ts";

/** Copies and removals of one connection that run at the same time: more of them only make a disk seek. */
const toolsAtOnce = 4;

/** Volumes and snapshots, each of which can be the source of the other's copies. */
function storeOn(space: Space, maxIdBytes: number, settings: DirectorySettings): FolderStore {
  const trees = new Trees(space, "v");
  const snapshots: Snapshots = new Snapshots(space, {
    trees: new Trees(space, "s"),
    volumeTrees: trees,
    maxIdBytes,
    method: settings.snapshotDriver,
    volume: id => store.origin(id),
  });
  const store: FolderStore = new FolderStore(space, {
    trees,
    dress: new Dress(space, settings),
    maxIdBytes,
    snapshots,
  });
  return store;
}

/**
 * A driver that keeps each volume in a folder below `<controllerBasePath>/v`, each snapshot below `…/s`, and what it knows of
 * them below `…/.csimux`. Opening does no I/O. Throws "failed-precondition" when controllerBasePath is not absolute.
 */
export function directoryDriver(
  kindName: DirectoryKind,
  identity: Identity,
  settings: DirectorySettings,
  ports: Ports,
  files?: Files,
): Driver {
  const kind = kinds[kindName];
  const space: Space = {
    connection: identity.connection,
    explain,
    files: files ?? (kind.local ? carefulFiles : filesOn(settings.shareHost ?? "")),
    choose: files === undefined && kind.local ? ownFiles : undefined,
    layout: new Layout(settings.controllerBasePath),
    runner: ports.local.runner,
    slots: new Slots(toolsAtOnce),
    locks: new Locks(),
    local: kind.local,
    mountTypes: settings.requireMount ? kind.mountTypes : undefined,
  };
  const store = storeOn(space, identity.maxIdBytes, settings);
  return new StoreDriver(identity, store, new BaseShare(kind, settings), kind.local);
}
