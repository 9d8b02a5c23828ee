import { httpAddress, portals, somePortal } from "../../schema/connecting.ts";
import { consistent, filled, flag, optional, record, secret, text } from "../../schema/parts.ts";
import { iqnBase, shaped } from "../../schema/storage.ts";
import { longestIqn } from "./names.ts";
import { lunSnapshotTemplate, lunTemplate, targetTemplate } from "./sections.ts";

const http = record(
  {
    ...httpAddress,
    username: filled({ description: "DSM account, an administrator", example: "csi" }),
    password: secret({ description: "password of the account" }),
    session: optional(
      text({ description: "name of the session; must differ between installations on one system", example: "csimux" }),
    ),
    serialize: optional(flag({ description: "one call at a time" }), false),
  },
  {
    description: "the web interface of DSM: port 5000 over http, 5001 over https",
    aliases: { user: "username", insecure: "allowInsecure" },
  },
);

const synology = record(
  {
    volume: optional(
      shaped(/^\/?volume[0-9]+$/, "must be a volume of DSM such as /volume1", {
        description: "the volume of DSM that LUNs are made on",
        example: "/volume1",
      }),
      "/volume1",
    ),
  },
  { description: "where LUNs are kept" },
);

const part = (description: string) =>
  optional(
    shaped(/^[A-Za-z0-9.:_-]*$/, 'must consist of letters, digits, ".", ":", "-" and "_"', {
      description,
      example: "csi-",
    }),
    "",
  );

/** "pvc-" and a UUID: what external-provisioner calls a volume. */
const usualName = 40;

const iscsi = consistent(
  record(
    {
      ...portals,
      baseiqn: iqnBase({
        description: "beginning of the target names; the name of the volume follows at once",
        example: "iqn.2000-01.com.synology:csi.",
      }),
      namePrefix: part("put in front of every name"),
      nameSuffix: part("put behind every name"),
      lunTemplate: optional(lunTemplate),
      targetTemplate: optional(targetTemplate),
      lunSnapshotTemplate: optional(lunSnapshotTemplate),
    },
    { description: "sharing over iSCSI", aliases: { baseIqn: "baseiqn", baseIQN: "baseiqn" } },
  ),
  function* (value) {
    yield* somePortal(value);
    const around = value.baseiqn.length + value.namePrefix.length + value.nameSuffix.length;
    if (around > longestIqn - usualName)
      yield [
        ["baseiqn"],
        `is too long together with namePrefix and nameSuffix: they have ${around} bytes, and with the name of a volume an iSCSI name has at most ${longestIqn}`,
      ];
  },
);

/** The sections of synology-iscsi. */
export const synologyIscsiSchema = record({ httpConnection: http, synology: optional(synology), iscsi });
