import type { ServiceImpl } from "@connectrpc/connect";
import { CsiError } from "../core/errors.ts";
import {
  PluginCapability_VolumeExpansion_Type as Expansion,
  type Identity,
  PluginCapability_Service_Type as Service,
} from "./gen/csi/v1/csi_pb.ts";
import type { Instrumented } from "./instrument.ts";

/** What the Identity service answers. */
export interface IdentityOptions {
  /** The driver name that the cluster sees (CSI GetPluginInfo). */
  readonly name: string;
  readonly version: string;
  readonly commit: string;
  /** Whether nodes and volumes report topology. */
  readonly topology: boolean;
  /** Throws when this process cannot do its own work; a storage system that is down is no such thing. */
  readonly ready: () => Promise<void>;
}

/** The Identity service. Its answers are the same from every instance, whatever its mode (CSI GetPluginCapabilities). */
export const identityService = (options: IdentityOptions): Instrumented<ServiceImpl<typeof Identity>> => ({
  getPluginInfo: async () => ({
    name: options.name,
    vendorVersion: options.version,
    manifest: { commit: options.commit },
  }),
  getPluginCapabilities: async () => ({
    capabilities: [
      { type: { case: "service", value: { type: Service.CONTROLLER_SERVICE } } },
      ...(options.topology
        ? [{ type: { case: "service" as const, value: { type: Service.VOLUME_ACCESSIBILITY_CONSTRAINTS } } }]
        : []),
      { type: { case: "volumeExpansion", value: { type: Expansion.ONLINE } } },
    ],
  }),
  probe: async () => {
    try {
      await options.ready();
    } catch (error) {
      // Whatever is missing, CSI knows one code for it here (CSI Probe).
      if (error instanceof CsiError) throw new CsiError("failed-precondition", error.message, { cause: error });
      throw error;
    }
    return { ready: true };
  },
});
