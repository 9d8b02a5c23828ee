import * as v from "valibot";
import type { AccessMode } from "../core/access.ts";
import type { CopyPolicy } from "../core/proxy.ts";
import type { sshConnection } from "../schema/connecting.ts";
import {
  anything,
  consistent,
  filled,
  flag,
  list,
  mapOf,
  oneOf,
  optional,
  record,
  scalar,
  text,
} from "../schema/parts.ts";
import { isLabelKey } from "../topology/labels.ts";
import { connectionCopiesSchema, copyPolicy } from "./copies.ts";
import { nodeSchema, nodeSettings } from "./node.ts";
import { labelValue, requirements } from "./requirements.ts";

/** One location from which a connection is reachable. */
export interface Alternative {
  /** Topology keys without prefix → values. */
  readonly requirements: Readonly<Record<string, string>>;
  /** Full labels → values; reported, never compared with a node's topology. */
  readonly extra: Readonly<Record<string, string>>;
}

const alternative = consistent(
  record(
    {
      requirements,
      extra: optional(
        mapOf(labelValue("value of the label"), {
          description:
            "further labels of the nodes, with their full names; volumes carry them, csimux never compares them",
          example: { "custom.example/tier": "gold" },
        }),
      ),
    },
    { description: "one location from which the storage system is reachable" },
  ),
  function* (each) {
    for (const key of Object.keys(each.extra ?? {})) {
      if (!isLabelKey(key)) yield [["extra", key], `"${key}" is not a valid label key, so volumes cannot carry it`];
    }
  },
);

const perDriver = record(
  {
    topology: optional(
      v.pipe(
        list(alternative, {
          description: "locations from which this storage system is reachable; one of them is enough",
        }),
        v.check(
          places => places.length > 0,
          "must name at least one location; remove the key for storage that is reachable from everywhere",
        ),
      ),
    ),
    labels: optional(
      mapOf(scalar({ description: "value of the label" }), {
        description: "labels by which groups select connections",
        example: { tier: "fast" },
      }),
    ),
  },
  {
    description: "csimux's own settings of this connection",
    ignored: { nodeIdType: "the protocol of a volume determines how its storage system identifies a node" },
  },
);

const modes = {
  SINGLE_NODE_WRITER: "single-node-writer",
  SINGLE_NODE_READER_ONLY: "single-node-reader-only",
  MULTI_NODE_READER_ONLY: "multi-node-reader-only",
  MULTI_NODE_SINGLE_WRITER: "multi-node-single-writer",
  MULTI_NODE_MULTI_WRITER: "multi-node-multi-writer",
  SINGLE_NODE_SINGLE_WRITER: "single-node-single-writer",
  SINGLE_NODE_MULTI_WRITER: "single-node-multi-writer",
} as const satisfies Record<string, AccessMode>;

/** In democratic-csi's own lists, and no mode of a volume. */
const noMode = "UNKNOWN";

const modeNames = [...(Object.keys(modes) as (keyof typeof modes)[]), noMode] as const;

const csi = record(
  {
    access_modes: optional(
      list(oneOf(modeNames, { description: "an access mode as CSI spells it" }), {
        description: "the access modes that volumes may have, instead of the driver's own list",
        example: ["SINGLE_NODE_WRITER", "MULTI_NODE_MULTI_WRITER"],
      }),
    ),
  },
  { description: "capabilities reported to the orchestrator" },
);

const volume = record(
  {
    deleteStrategy: optional(
      oneOf(["delete", "retain", ""], { description: "retain: deleting a volume succeeds and leaves its data" }),
      "delete",
    ),
    volumeContext: optional(anything({ description: "a test aid of democratic-csi; not used" })),
  },
  {
    description: "volume ids and deletion",
    ignored: {
      idTemplate: "classes name volumes with the parameter nameTemplate; existing volumes keep their ids",
      idHash: "csimux shortens only names that are too long, with SHA-256; existing volumes keep their ids",
    },
  },
);

/** The keys that every connection file may have, regardless of its driver. */
export const commonSchema = record(
  {
    driver: filled({ description: "the driver of this connection" }),
    instance_id: optional(
      text({ description: "an id of this deployment: recorded with volumes, and a prefix of parameter names" }),
    ),
    suspended: optional(flag({ description: "no new volumes; everything else keeps working" }), false),
    proxy: optional(
      record(
        { perDriver: optional(perDriver) },
        {
          description: "csimux's own settings of this connection",
          ignored: Object.fromEntries(
            ["configFolder", "cacheTimeoutMinutes", "nodeTopology", "nodeId", "groups", "copies"].map(key => [
              key,
              "it belongs in the main file",
            ]),
          ),
        },
      ),
    ),
    copies: optional(connectionCopiesSchema),
    node: optional(nodeSchema),
    csi: optional(csi),
    service: optional(
      anything({ description: "capability lists of democratic-csi; csimux advertises what its drivers support" }),
    ),
    _private: optional(
      record(
        {
          csi: optional(record({ volume: optional(volume) })),
          volume_context: optional(anything({ description: "not used" })),
        },
        { description: "settings that democratic-csi does not document" },
      ),
    ),
  },
  { description: "a connection" },
);

/** The common part of a connection file. */
export interface CommonConfig {
  readonly driver: string;
  readonly instanceId: string | undefined;
  readonly suspended: boolean;
  /** Undefined: reachable from everywhere. */
  readonly topology: readonly Alternative[] | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly copies: CopyPolicy;
  /** `copies.sshConnection`: how zfs is called for streams on a system that is otherwise managed over its API. */
  readonly copySsh: v.InferOutput<typeof sshConnection> | undefined;
  /** retain: DeleteVolume succeeds and changes nothing. */
  readonly deleteStrategy: "delete" | "retain";
  /** `node.mount.mount_flags`, one flag each. */
  readonly mountFlags: readonly string[];
  /** Undefined: the driver's default. */
  readonly accessModes: readonly AccessMode[] | undefined;
}

/** Converts the parsed common part to a CommonConfig. */
export function commonConfig(parsed: v.InferOutput<typeof commonSchema>): CommonConfig {
  const perDriver = parsed.proxy?.perDriver;
  return {
    driver: parsed.driver,
    instanceId: parsed.instance_id || undefined,
    suspended: parsed.suspended,
    topology: perDriver?.topology?.map(each => ({ requirements: each.requirements, extra: each.extra ?? {} })),
    labels: perDriver?.labels ?? {},
    copies: copyPolicy(parsed.copies),
    copySsh: parsed.copies?.sshConnection,
    deleteStrategy: parsed._private?.csi?.volume?.deleteStrategy === "retain" ? "retain" : "delete",
    mountFlags: nodeSettings(parsed.node).mountFlags,
    accessModes: parsed.csi?.access_modes?.flatMap(name => (name === noMode ? [] : [modes[name]])),
  };
}
