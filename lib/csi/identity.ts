import type { ServiceImpl } from "@connectrpc/connect";
import { PluginCapability_VolumeExpansion_Type as Expansion, type Identity } from "./gen/csi/v1/csi_pb.ts";
import type { Instrumented } from "./instrument.ts";
import { pluginCapabilities, type Version } from "./versions.ts";

/** What the Identity service reports. */
export interface IdentityOptions {
  /** The driver name that the cluster sees (CSI GetPluginInfo). */
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  /** Whether nodes and volumes report topology. */
  readonly topology: boolean;
  /** The highest CSI version whose capabilities are advertised. */
  readonly csiVersion: Version;
}

/** The Identity service. All instances give the same answers (CSI GetPluginCapabilities). */
export const identityService = (options: IdentityOptions): Instrumented<ServiceImpl<typeof Identity>> => ({
  getPluginInfo: async () => ({
    name: options.name,
    vendorVersion: options.version,
    manifest: { commit: options.commit },
  }),
  getPluginCapabilities: async () => ({
    capabilities: [
      ...pluginCapabilities(options.csiVersion, options.topology).map(type => ({
        type: { case: "service" as const, value: { type } },
      })),
      { type: { case: "volumeExpansion", value: { type: Expansion.ONLINE } } },
    ],
  }),
  // Answering at all proves health. Calls that need a node or a connection that is not ready fail themselves: failing
  // the probe would make kubelet restart a process that a restart cannot help.
  probe: async () => ({ ready: true }),
});
