import type { Call } from "../../core/call.ts";
import type { Driver, Source } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { directFiles } from "./direct-files.ts";
import { failure } from "./failures.ts";
import { type Files, pooledFiles } from "./files.ts";
import { contextOf, kinds } from "./kinds.ts";
import { layoutOf } from "./layout.ts";
import { dressOf } from "./owner.ts";
import type { DirectoryKind, DirectorySettings } from "./settings.ts";
import { withSharedSync } from "./shared-sync.ts";
import { slotsOf } from "./slots.ts";
import { sameSnapshot, snapshotsOf } from "./snapshots.ts";
import { present, type Space, stillWanted } from "./space.ts";
import { checkTools } from "./tools.ts";
import { treesOf } from "./trees.ts";
import { type Volumes, volumesOf } from "./volumes.ts";

/** Copies and removals of one connection that run at the same time: more of them only make a disk seek. */
const toolsAtOnce = 4;

type Guard = <T>(doing: string, call: Call, work: () => Promise<T>) => Promise<T>;

/** Gives every failure of an operation its code and a message that names connection and object. */
const guardOf =
  (space: Space): Guard =>
  async (doing, call, work) => {
    try {
      stillWanted(space, call);
      return await work();
    } catch (error) {
      throw failure(error, space.connection, doing);
    }
  };

const sameSource = (a: Source, b: Source): boolean =>
  a.kind === b.kind && (a.kind === "volume" ? a.id === b.id : sameSnapshot(a.id, b.id));

/**
 * A driver that keeps each volume in a folder below `<controllerBasePath>/v`, each snapshot below `…/s`, and what it knows of
 * them below `…/.csimux`. Opening does no I/O. Throws "failed-precondition" when controllerBasePath is not absolute.
 */
export function directoryDriver(
  kindName: DirectoryKind,
  identity: Identity,
  settings: DirectorySettings,
  ports: Ports,
  ownFiles: Files = kinds[kindName].local ? directFiles : pooledFiles,
): Driver {
  const kind = kinds[kindName];
  const files = withSharedSync(ownFiles);
  const space: Space = {
    connection: identity.connection,
    files,
    layout: layoutOf(settings.controllerBasePath),
    runner: ports.local,
    inTurn: slotsOf(toolsAtOnce),
    mountTypes: settings.requireMount ? kind.mountTypes : undefined,
  };
  const guard = guardOf(space);
  const { maxIdBytes } = identity;
  const trees = treesOf(space, "v");
  const volumes: Volumes = volumesOf(space, {
    trees,
    dress: dressOf(files, settings),
    maxIdBytes,
    context: contextOf(kind, identity, settings),
    snapshot: id => snapshots.origin(id),
    sameSource,
  });
  const snapshots = snapshotsOf(space, {
    trees: treesOf(space, "s"),
    volumeTrees: trees,
    maxIdBytes,
    method: settings.snapshotDriver,
    volume: volumes.origin,
  });
  const { ability } = snapshots;
  const named = (what: string, id: string) => `${what} "${id.slice(0, 160)}"`;

  return {
    protocol: kind.protocol,
    access: { kinds: ["mount"], filesystems: kind.filesystems, sharedWriters: true },
    ...(kind.local && { local: true as const }),
    create: (spec, call) => guard(named("create volume", spec.name), call, () => volumes.create(spec, call)),
    delete: (id, call) => guard(named("delete volume", id), call, () => volumes.delete(id, call)),
    get: (id, call) => guard(named("read volume", id), call, () => volumes.get(id)),
    find: (name, call) => guard(named("look for volume", name), call, () => volumes.find(name)),
    expand: {
      expand: (id, range, call) =>
        guard(named("expand volume", id), call, async () => ({
          bytes: await volumes.expand(id, range),
          onNode: false,
        })),
    },
    snapshots: {
      create: (name, volumeId, parameters, call) =>
        guard(named("create snapshot", name), call, () => ability.create(name, volumeId, parameters, call)),
      delete: (id, call) => guard(named("delete snapshot", id), call, () => ability.delete(id, call)),
      get: (id, call) => guard(named("read snapshot", id), call, () => ability.get(id, call)),
      list: (filter, page, call) => guard("list snapshots", call, () => ability.list(filter, page, call)),
    },
    clones: { from: ["volume", "snapshot"] },
    capacity: {
      available: (_parameters, call) =>
        guard("measure the free space", call, async () => {
          await present(space);
          return (await files.statfs(space.layout.base)).availableBytes;
        }),
    },
    inventory: { list: (page, call) => guard("list volumes", call, () => volumes.list(page, call)) },
    check: call =>
      guard("use the base folder", call, async () => {
        await present(space);
        await files.usable(space.layout.base);
        await checkTools(space, call);
      }),
  };
}
