import type { Call } from "../../core/call.ts";
import { Locks } from "../../core/locks.ts";
import { Slots } from "../../core/slots.ts";
import type { Driver, Source, Volume, VolumeSpec } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import { Capacity, Expansion, guarded, Inventory, SnapshotAbility } from "./abilities.ts";
import { filesOn } from "./by-server.ts";
import type { Files } from "./files.ts";
import { contextOf, type Kind, kinds } from "./kinds.ts";
import { Layout } from "./layout.ts";
import { carefulFiles, ownFiles } from "./own-files.ts";
import { Dress } from "./owner.ts";
import type { DirectoryKind, DirectorySettings } from "./settings.ts";
import { Snapshots, sameSnapshot } from "./snapshots.ts";
import { present, type Space } from "./space.ts";
import { checkTools } from "./tools.ts";
import { Trees } from "./trees.ts";
import { Volumes } from "./volumes.ts";

/** Copies and removals of one connection that run at the same time: more of them only make a disk seek. */
const toolsAtOnce = 4;

const sameSource = (a: Source, b: Source): boolean =>
  a.kind === b.kind && (a.kind === "volume" ? a.id === b.id : sameSnapshot(a.id, b.id));

/** The two halves, each of which can be the source of the other's copies. */
function halvesOf(space: Space, kind: Kind, identity: Identity, settings: DirectorySettings) {
  const { maxIdBytes } = identity;
  const trees = new Trees(space, "v");
  const volumes: Volumes = new Volumes(space, {
    trees,
    dress: new Dress(space, settings),
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

const clones: NonNullable<Driver["clones"]> = { from: ["volume", "snapshot"] };

/** A process may hold thousands of them, so functions exist once and the abilities are made when they are asked for. */
class DirectoryDriver implements Driver {
  readonly protocol: Driver["protocol"];
  readonly access: Driver["access"];
  readonly local?: true;
  readonly clones = clones;
  readonly #space: Space;
  readonly #volumes: Volumes;
  readonly #snapshots: Snapshots;

  constructor(kind: Kind, space: Space, volumes: Volumes, snapshots: Snapshots) {
    this.protocol = kind.protocol;
    this.access = kind.access;
    if (kind.local) this.local = true;
    this.#space = space;
    this.#volumes = volumes;
    this.#snapshots = snapshots;
  }

  get expand(): Expansion {
    return new Expansion(this.#space, this.#volumes);
  }

  get inventory(): Inventory {
    return new Inventory(this.#space, this.#volumes);
  }

  get capacity(): Capacity {
    return new Capacity(this.#space);
  }

  get snapshots(): SnapshotAbility {
    return new SnapshotAbility(this.#space, this.#snapshots);
  }

  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    return guarded(this.#space, "create volume", spec.name, call, () => this.#volumes.create(spec, call));
  }

  delete(id: string, call: Call): Promise<void> {
    return guarded(this.#space, "delete volume", id, call, () => this.#volumes.delete(id, call));
  }

  get(id: string, call: Call): Promise<Volume> {
    return guarded(this.#space, "read volume", id, call, () => this.#volumes.get(id));
  }

  find(name: string, call: Call): Promise<Volume | undefined> {
    return guarded(this.#space, "look for volume", name, call, () => this.#volumes.find(name));
  }

  leftover(name: string, call: Call): Promise<string | undefined> {
    return guarded(this.#space, "look for remains of volume", name, call, () => this.#volumes.leftover(name));
  }

  check(call: Call): Promise<void> {
    return guarded(this.#space, "use the base folder", "", call, async () => {
      await present(this.#space, "first");
      await this.#space.files.usable(this.#space.layout.base);
      await checkTools(this.#space, call);
    });
  }
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
    files: files ?? (kind.local ? carefulFiles : filesOn(settings.shareHost ?? "")),
    choose: files === undefined && kind.local ? ownFiles : undefined,
    layout: new Layout(settings.controllerBasePath),
    runner: ports.local,
    slots: new Slots(toolsAtOnce),
    locks: new Locks(),
    local: kind.local,
    mountTypes: settings.requireMount ? kind.mountTypes : undefined,
  };
  const { volumes, snapshots } = halvesOf(space, kind, identity, settings);
  return new DirectoryDriver(kind, space, volumes, snapshots);
}
