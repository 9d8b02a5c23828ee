import { type DriverFacts, factsOf } from "../../lib/drivers/facts.ts";
import type { ConnectionIdentity } from "../../lib/drivers/module.ts";
import type { ShareProtocol, StoredVolume } from "../../lib/drivers/store.ts";
import { StoreDriver } from "../../lib/drivers/store-driver.ts";
import { ToyFolderShare, ToyTargetShare } from "./shares.ts";
import { alive, type Step, type ToyStorage } from "./storage.ts";
import { ToyStore } from "./store.ts";

/** The kinds of toy: one store, two shares. */
export type ToyKind = "toy-folder" | "toy-target";

/** The driver of one kind on a storage, whose steps go through `step`. */
export function toyDriver(
  kind: ToyKind,
  storage: ToyStorage,
  step: Step = alive,
  maxIdBytes = 100,
): StoreDriver<StoredVolume> {
  const identity: ConnectionIdentity = { connection: "toy", driver: kind, instanceId: undefined, maxIdBytes };
  const share: ShareProtocol<StoredVolume> =
    kind === "toy-folder" ? new ToyFolderShare() : new ToyTargetShare(storage, step);
  return new StoreDriver(identity, new ToyStore(storage, step, maxIdBytes), share);
}

/** What the module of a kind says of it. */
export const toyFacts = (kind: ToyKind): DriverFacts => factsOf(kind === "toy-folder" ? "hostpath" : "iscsi", kind);
