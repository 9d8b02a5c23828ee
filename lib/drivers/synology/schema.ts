import * as v from "valibot";
import { chapPairs, httpAddress, portals, somePortal } from "../../schema/connecting.ts";
import { consistent, filled, flag, list, oneOf, optional, record, secret, text, whole } from "../../schema/parts.ts";
import { iqnBase, shaped, templated } from "../../schema/storage.ts";

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

const attributeNames = [
  "emulate_tpws",
  "emulate_caw",
  "emulate_3pc",
  "emulate_tpu",
  "emulate_fua_write",
  "emulate_sync_cache",
  "can_snapshot",
] as const;

const number = <const T extends readonly number[]>(values: T, description: string) =>
  v.pipe(v.picklist(values, `must be ${values.join(" or ")}`), v.metadata({ description, example: values[0] }));

const attribute = record(
  {
    dev_attrib: oneOf(attributeNames, { description: "name of the attribute", example: "emulate_tpu" }),
    enable: number([0, 1], "1 on, 0 off"),
  },
  { description: "one attribute of a LUN" },
);

const lunTypes = ["BLUN", "BLUN_THICK", "THIN", "ADV", "FILE"] as const;
const thin: readonly unknown[] = ["BLUN", "THIN", "ADV"];

const lunTemplate = consistent(
  record(
    {
      type: optional(
        oneOf(lunTypes, {
          description: "kind of LUN: BLUN (thin), BLUN_THICK on Btrfs; THIN, ADV, FILE (thick) on ext4",
          absent: "the StorageClass must name it in its own lunTemplate",
          example: "BLUN",
        }),
      ),
      description: optional(templated({ description: "description of every LUN, from `name` and `parameters`" })),
      direct_io_pattern: optional(number([0, 3], "thick LUNs: 0 buffered, 3 direct writes")),
      dev_attribs: optional(list(attribute, { description: "attributes of every LUN" })),
    },
    { description: "how LUNs are made; a StorageClass may override it", aliases: { dev_attributes: "dev_attribs" } },
  ),
  function* (value) {
    const names = (value.dev_attribs ?? []).map(each => each.dev_attrib);
    const twice = names.findIndex((name, index) => names.indexOf(name) < index);
    if (twice >= 0) yield [["dev_attribs", twice, "dev_attrib"], "this attribute is listed already"];
    const snapshot = (value.dev_attribs ?? []).findIndex(
      each => each.dev_attrib === "can_snapshot" && each.enable === 1,
    );
    if (snapshot >= 0 && value.type !== undefined && !thin.includes(value.type))
      yield [["dev_attribs", snapshot], `only thin LUNs can have snapshots, and ${value.type} is thick`];
    if (value.direct_io_pattern === 3 && thin.includes(value.type))
      yield [["direct_io_pattern"], `only thick LUNs write directly, and ${String(value.type)} is thin`];
  },
);

const segment = (description: string) => optional(whole({ description, unit: "bytes", example: 262144 }, 512));

const targetTemplate = consistent(
  record(
    {
      auth_type: optional(
        number([0, 1, 2], "how nodes log in: 0 without, 1 with CHAP, 2 with mutual CHAP; follows from the credentials"),
      ),
      user: optional(text({ description: "CHAP user that nodes log in with", example: "node" })),
      password: optional(secret({ description: "CHAP password of nodes" })),
      mutual_user: optional(text({ description: "CHAP user that the target logs in with (mutual CHAP)" })),
      mutual_password: optional(secret({ description: "CHAP password of the target (mutual CHAP)" })),
      max_sessions: optional(whole({ description: "sessions at once; 0 does not limit them", example: 0 })),
      multi_sessions: optional(flag({ description: "several initiators at once" })),
      has_header_checksum: optional(flag({ description: "checksums over headers" })),
      has_data_checksum: optional(flag({ description: "checksums over data" })),
      max_recv_seg_bytes: segment("largest segment that the target receives"),
      max_send_seg_bytes: segment("largest segment that the target sends"),
    },
    {
      description: "how targets are made; a StorageClass may override it",
      aliases: { mutualUser: "mutual_user", mutualPassword: "mutual_password" },
    },
  ),
  value =>
    chapPairs(value, {
      user: "user",
      password: "password",
      mutualUser: "mutual_user",
      mutualPassword: "mutual_password",
    }),
);

const lunSnapshotTemplate = record(
  {
    is_locked: optional(flag({ description: "keep DSM's retention rules from removing a snapshot" })),
    is_app_consistent: optional(flag({ description: "ask a Storage Console on the host to flush first" })),
  },
  { description: "how snapshots are made; a VolumeSnapshotClass may override it" },
);

const part = (description: string) =>
  optional(
    shaped(/^[A-Za-z0-9.:_-]*$/, 'must consist of letters, digits, ".", ":", "-" and "_"', {
      description,
      example: "csi-",
    }),
    "",
  );

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
  somePortal,
);

/** The sections of synology-iscsi. */
export const synologyIscsiSchema = record({ httpConnection: http, synology: optional(synology), iscsi });
