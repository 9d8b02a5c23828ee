import { httpAddress, portals, somePortal } from "../../schema/connecting.ts";
import { consistent, filled, flag, host, list, oneOf, optional, record, secret, text } from "../../schema/parts.ts";
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
        description: "the volume of DSM that volumes are made on",
        example: "/volume1",
      }),
      "/volume1",
    ),
  },
  { description: "where volumes are kept" },
);

const part = (description: string) =>
  optional(
    shaped(/^[A-Za-z0-9.:-]*$/, 'must consist of letters, digits, ".", ":" and "-"', {
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

const shareHost = host({ description: "the system as nodes reach it", example: "syno.example.org" });

const folderPrefix = optional(
  shaped(
    /^[a-z0-9-]{0,8}$/,
    'must have at most 8 small letters, digits and "-": DSM gives shared folders 32 characters',
    { description: "put in front of the name of every shared folder", example: "k8s-" },
  ),
  "",
);

const nfs = consistent(
  record(
    {
      shareHost,
      namePrefix: folderPrefix,
      allowedHosts: list(
        shaped(/^[A-Za-z0-9*?@.:_/-]{1,255}$/, "must be a host, an address, a network such as 10.0.0.0/24, or *", {
          description: "a host, an address or a network",
        }),
        { description: "who may mount volumes: the nodes", example: ["10.0.0.0/24"] },
      ),
      squash: optional(
        oneOf(["no_map", "root_admin", "root_guest", "all_admin", "all_guest"], {
          description: "whom users of nodes become: no one else, root becomes admin or guest, or all users do",
          example: "no_map",
        }),
        "no_map",
      ),
    },
    { description: "sharing over NFS", aliases: { shareAllowedHosts: "allowedHosts" } },
  ),
  function* (value) {
    if (value.allowedHosts.length === 0) yield [["allowedHosts"], "must name the nodes, or none can mount a volume"];
  },
);

const accounts = (description: string) =>
  optional(
    list(filled({ description: "name of an account of DSM" }), { description, absent: "none", example: ["csi-nodes"] }),
    [],
  );

const smb = consistent(
  record(
    {
      shareHost,
      namePrefix: folderPrefix,
      users: accounts("users of DSM that may write to every volume; nodes log in as one of them"),
      groups: accounts("groups of DSM whose members may write to every volume"),
    },
    { description: "sharing over SMB" },
  ),
  function* (value) {
    if (value.users.length + value.groups.length === 0)
      yield [["users"], 'nodes log in with an account: give "users" or "groups"'];
  },
);

/** The sections of synology-nfs. */
export const synologyNfsSchema = record({ httpConnection: http, synology: optional(synology), nfs });
/** The sections of synology-smb. */
export const synologySmbSchema = record({ httpConnection: http, synology: optional(synology), smb });
