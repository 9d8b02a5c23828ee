import { TryLocks } from "../../core/locks.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { type Files, filesOn, localFiles } from "../../io/files.ts";
import type { ShareSettings } from "../../io/share-point.ts";
import type { Driver } from "../driver.ts";
import { explain } from "../file-failures.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import type { ShareProtocol } from "../store.ts";
import { StoreDriver } from "../store-driver.ts";
import { kopia } from "./backups/kopia.ts";
import { Repository } from "./backups/repository.ts";
import { restic } from "./backups/restic.ts";
import { Backups } from "./backups/snapshots.ts";
import { ShareBase, StorePerOperation } from "./base.ts";
import { CopiedSources } from "./copying/copied-sources.ts";
import { FreshMount, freshFlags } from "./copying/fresh-mount.ts";
import { type DirectoryDriver, type DirectoryKind, type DirectorySettings, kinds } from "./kinds.ts";
import { Layout } from "./layout.ts";
import type { OperationContext } from "./operation-context.ts";
import { OwnershipAndMode } from "./owner.ts";
import { SnapshotMethods } from "./snapshot-methods.ts";
import { TreeSnapshots } from "./snapshots.ts";
import { DirectoryStore, type VolumeFolder } from "./store.ts";
import { Trees } from "./trees.ts";

/** The number of concurrent copies and removals of one connection: more would only make a disk seek. */
const toolsAtOnce = 4;

const repositoriesOf = (context: OperationContext, settings: DirectorySettings): readonly Repository[] => [
  ...(settings.restic ? [new Repository(context, restic(settings.restic), settings.restic)] : []),
  ...(settings.kopia ? [new Repository(context, kopia(settings.kopia), settings.kopia)] : []),
];

/** What all operations of a connection share. */
interface StoreTools {
  readonly repositories: readonly Repository[];
  readonly owner: OwnershipAndMode;
  readonly maxIdBytes: number;
  /** `snapshots.default_driver`. */
  readonly method: string;
  readonly fresh: FreshMount;
}

/** The volumes and snapshots of one operation; each can be the source of the other's copies. */
function storeOn(
  context: OperationContext,
  { repositories, owner, maxIdBytes, method, fresh }: StoreTools,
): DirectoryStore {
  const trees = new Trees(context, "v");
  const volume = (id: string) => store.origin(id);
  const sources: CopiedSources = new CopiedSources(context, {
    fresh,
    async content({ kind, id }, call) {
      if (kind === "snapshot") return snapshots.given(id, call);
      return { kind: "tree", name: `v/${id}`, bytes: (await store.origin(id)).bytes };
    },
    backup: (name, call) => snapshots.content(name, call),
    sameSource: (a, b) => store.sameSource(a, b),
  });
  const snapshots: SnapshotMethods = new SnapshotMethods(context, {
    copies: new TreeSnapshots(context, { trees: new Trees(context, "s"), volumeTrees: trees, maxIdBytes, volume }),
    backups: new Map(repositories.map(each => [each.method, new Backups(context, each, { maxIdBytes, volume })])),
    method,
    refuseProtected: (source, call) => sources.refuseProtected(source, call),
  });
  const store: DirectoryStore = new DirectoryStore(context, {
    trees,
    owner,
    maxIdBytes,
    snapshots,
    sources,
  });
  return store;
}

/** The base folder of a share that must be mounted, if this process can mount it. */
function shareBase(
  kind: DirectoryDriver,
  identity: ConnectionIdentity,
  settings: DirectorySettings,
  layout: Layout,
  files: Files,
  { share }: DriverPorts,
): ShareBase | undefined {
  if (!share || !settings.requireMount || !kind.mountTypes) return undefined;
  const lease = share(shareSettings(kind, identity, settings));
  return new ShareBase(layout.base, files, kind.mountTypes, lease);
}

function shareSettings(
  kind: DirectoryDriver,
  { mountFlags = [] }: ConnectionIdentity,
  settings: DirectorySettings,
  more: readonly string[] = [],
): ShareSettings {
  const context = kind.context(settings.shareHost ?? "", settings.shareBasePath.replace(/(.)\/+$/, "$1"));
  return { protocol: kind.protocol, context, mountFlags: [...mountFlags, ...more] };
}

/** The base folder is shared already, so a folder in it is reachable as soon as it is there. */
const baseShare = (
  { protocol, access, context }: DirectoryDriver,
  { shareHost, shareBasePath }: DirectorySettings,
): ShareProtocol<VolumeFolder> => ({
  ...{ protocol, access, growsOnNode: false },
  context: ({ id }) => context(shareHost ?? "", `${shareBasePath.replace(/\/+$/, "")}/v/${id}`),
});

/**
 * A driver that keeps each volume in a folder below `<controllerBasePath>/v`, each snapshot below `…/s`, and its records
 * below `…/.csimux`. Opening does no I/O. Throws "failed-precondition" if controllerBasePath is not absolute.
 */
export function directoryDriver(
  kindName: DirectoryKind,
  identity: ConnectionIdentity,
  settings: DirectorySettings,
  ports: DriverPorts,
  files?: Files,
): Driver {
  const kind = kinds[kindName];
  const serverFiles = files ?? (kind.local ? localFiles : filesOn(settings.shareHost ?? ""));
  const layout = new Layout(settings.controllerBasePath);
  const base = shareBase(kind, identity, settings, layout, serverFiles, ports);
  const context: OperationContext = {
    connection: identity.connection,
    instanceId: identity.instanceId,
    explain,
    files: serverFiles,
    layout,
    runner: ports.local.runner,
    slots: new Semaphore(toolsAtOnce),
    locks: new TryLocks(),
    local: kind.local,
    mountTypes: settings.requireMount ? kind.mountTypes : undefined,
  };
  const { share } = ports;
  const isMounted = share && kind.protocol === "nfs" && settings.requireMount;
  const fresh = new FreshMount(
    isMounted ? () => share(shareSettings(kind, identity, settings, freshFlags)) : undefined,
  );
  const repositories = repositoriesOf(context, settings);
  const owner = new OwnershipAndMode(context, settings);
  const store = new StorePerOperation({
    context,
    locate: base && (() => base.find()),
    maxIdBytes: identity.maxIdBytes,
    storeOn: at =>
      storeOn(at, { repositories, owner, maxIdBytes: identity.maxIdBytes, method: settings.snapshotDriver, fresh }),
    close: async () => void (await Promise.all([...repositories.map(each => each.close()), base?.close()])),
  });
  return new StoreDriver(identity, store, baseShare(kind, settings));
}
