import type { Call } from "../../core/call.ts";
import { Locks } from "../../core/locks.ts";
import type { Driver, Source } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { directFiles } from "./direct-files.ts";
import { failure } from "./failures.ts";
import { type Files, pooledFiles } from "./files.ts";
import { contextOf, type Kind, kinds } from "./kinds.ts";
import { Layout } from "./layout.ts";
import { Dress } from "./owner.ts";
import type { DirectoryKind, DirectorySettings } from "./settings.ts";
import { withSharedSync } from "./shared-sync.ts";
import { Slots } from "./slots.ts";
import { Snapshots, sameSnapshot } from "./snapshots.ts";
import { present, type Space, stillWanted } from "./space.ts";
import { checkTools } from "./tools.ts";
import { Trees } from "./trees.ts";
import { Volumes } from "./volumes.ts";

/** Copies and removals of one connection that run at the same time: more of them only make a disk seek. */
const toolsAtOnce = 4;

/** One of each for the process: two connections may have the same folder. */
const localFiles = withSharedSync(directFiles);
const sharedFiles = withSharedSync(pooledFiles);

type Guard = <T>(doing: string, name: string, call: Call, work: () => Promise<T>) => Promise<T>;

/** Gives every failure of an operation its code and a message that names connection and object. */
const guardOf =
  (space: Space): Guard =>
  async (doing, name, call, work) => {
    try {
      stillWanted(space, call);
      return await work();
    } catch (error) {
      throw failure(error, space.connection, name === "" ? doing : `${doing} "${name.slice(0, 160)}"`);
    }
  };

const sameSource = (a: Source, b: Source): boolean =>
  a.kind === b.kind && (a.kind === "volume" ? a.id === b.id : sameSnapshot(a.id, b.id));

/** The two halves, each of which can be the source of the other's copies. */
function halvesOf(space: Space, kind: Kind, identity: Identity, settings: DirectorySettings) {
  const { maxIdBytes } = identity;
  const trees = new Trees(space, "v");
  const volumes: Volumes = new Volumes(space, {
    trees,
    dress: new Dress(space.files, settings),
    maxIdBytes,
    context: id => contextOf(kind, identity, settings, id),
    snapshot: id => snapshots.origin(id),
    sameSource,
  });
  const snapshots: Snapshots = new Snapshots(space, {
    trees: new Trees(space, "s"),
    volumeTrees: trees,
    maxIdBytes,
    method: settings.snapshotDriver,
    volume: id => volumes.origin(id),
  });
  return { volumes, snapshots };
}

type VolumeMembers = Pick<Driver, "create" | "delete" | "get" | "find" | "leftover" | "expand" | "inventory">;

const volumeMembers = (guard: Guard, volumes: Volumes): VolumeMembers => ({
  create: (spec, call) => guard("create volume", spec.name, call, () => volumes.create(spec, call)),
  delete: (id, call) => guard("delete volume", id, call, () => volumes.delete(id, call)),
  get: (id, call) => guard("read volume", id, call, () => volumes.get(id)),
  find: (name, call) => guard("look for volume", name, call, () => volumes.find(name)),
  leftover: (name, call) => guard("look for remains of volume", name, call, () => volumes.leftover(name)),
  inventory: { list: (page, call) => guard("list volumes", "", call, () => volumes.list(page, call)) },
  expand: {
    async expand(id, range, call) {
      const bytes = await guard("expand volume", id, call, () => volumes.expand(id, range));
      return { bytes, onNode: false };
    },
  },
});

const clones: Driver["clones"] = { from: ["volume", "snapshot"] };

const snapshotMembers = (guard: Guard, snapshots: Snapshots): Pick<Driver, "snapshots" | "clones"> => ({
  clones,
  snapshots: {
    create: (name, volumeId, parameters, call) =>
      guard("create snapshot", name, call, () => snapshots.create(name, volumeId, parameters, call)),
    delete: (id, call) => guard("delete snapshot", id, call, () => snapshots.delete(id, call)),
    get: (id, call) => guard("read snapshot", id, call, () => snapshots.get(id)),
    list: ({ volumeId }, page, call) => guard("list snapshots", "", call, () => snapshots.list(volumeId, page, call)),
  },
});

const baseMembers = (guard: Guard, space: Space): Pick<Driver, "capacity" | "check"> => ({
  capacity: {
    available: (_parameters, call) =>
      guard("measure the free space", "", call, async () => {
        await present(space);
        return (await space.files.statfs(space.layout.base)).availableBytes;
      }),
  },
  check: call =>
    guard("use the base folder", "", call, async () => {
      await present(space);
      await space.files.usable(space.layout.base);
      await checkTools(space, call);
    }),
});

/**
 * A driver that keeps each volume in a folder below `<controllerBasePath>/v`, each snapshot below `…/s`, and what it knows of
 * them below `…/.csimux`. Opening does no I/O. Throws "failed-precondition" when controllerBasePath is not absolute.
 */
export function directoryDriver(
  kindName: DirectoryKind,
  identity: Identity,
  settings: DirectorySettings,
  ports: Ports,
  files: Files = kinds[kindName].local ? localFiles : sharedFiles,
): Driver {
  const kind = kinds[kindName];
  const space: Space = {
    connection: identity.connection,
    files,
    layout: new Layout(settings.controllerBasePath),
    runner: ports.local,
    slots: new Slots(toolsAtOnce),
    locks: new Locks(),
    local: kind.local,
    mountTypes: settings.requireMount ? kind.mountTypes : undefined,
  };
  const guard = guardOf(space);
  const { volumes, snapshots } = halvesOf(space, kind, identity, settings);
  return {
    protocol: kind.protocol,
    access: kind.access,
    ...(kind.local && { local: true as const }),
    ...volumeMembers(guard, volumes),
    ...snapshotMembers(guard, snapshots),
    ...baseMembers(guard, space),
  };
}
