import type { ServiceImpl } from "@connectrpc/connect";
import { PluginCapability_VolumeExpansion_Type as Expansion, type Identity } from "./gen/csi/v1/csi_pb.ts";
import type { Instrumented } from "./instrument.ts";
import { pluginCapabilities, type Version } from "./versions.ts";

/** What the Identity service answers. */
export interface IdentityOptions {
  /** The driver name that the cluster sees (CSI GetPluginInfo). */
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  /** Whether nodes and volumes report topology. */
  readonly topology: boolean;
  /** Whether a connection takes snapshots of several volumes at once; a process without controller cannot know of one. */
  readonly groups: () => Promise<boolean>;
  /** Above which nothing is advertised. */
  readonly csiVersion: Version;
}

/** The Identity service. Its answers are the same from every instance but for what only a controller can know (CSI GetPluginCapabilities). */
export const identityService = (options: IdentityOptions): Instrumented<ServiceImpl<typeof Identity>> => ({
  getPluginInfo: async () => ({
    name: options.name,
    vendorVersion: options.version,
    manifest: { commit: options.commit },
  }),
  getPluginCapabilities: async () => ({
    capabilities: [
      ...pluginCapabilities(options.csiVersion, options.topology, await options.groups()).map(type => ({
        type: { case: "service" as const, value: { type } },
      })),
      { type: { case: "volumeExpansion", value: { type: Expansion.ONLINE } } },
    ],
  }),
  // Whoever can answer is alive. What a node or a connection still waits for is said where it is asked for: an answer that
  // depended on it would make kubelet restart a process that no restart can help.
  probe: async () => ({ ready: true }),
});
