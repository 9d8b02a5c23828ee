import type { Source, VolumeSpec } from "../../../lib/drivers/driver.ts";
import type { ZfsRig } from "./zfs-rig.ts";

/** The dataset of a volume. */
export const dataset = (id: string): string => `tank/k/v/${id}`;

/** The volume or snapshot of an id as a source. */
export const from = (id: string): Source => ({ kind: /[@/]/.test(id) ? "snapshot" : "volume", id });

export const withParameters = (spec: VolumeSpec, parameters: Record<string, string>): VolumeSpec => ({
  ...spec,
  parameters,
});

/** What a dataset itself has as a property. */
export const own = (rig: ZfsRig, name: string, key: string): string | undefined => rig.fake.find(name)?.own[key]?.value;
