import * as v from "valibot";
import { chapPairs } from "../../schema/connecting.ts";
import { consistent, flag, list, oneOf, optional, record, secret, text, whole } from "../../schema/parts.ts";
import { templated } from "../../schema/storage.ts";

/** The templates of LUNs, targets and snapshots, in the connection file and in classes, which may override it. */

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

/** `lunTemplate` */
export const lunTemplate = consistent(
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

/** `targetTemplate` */
export const targetTemplate = consistent(
  record(
    {
      auth_type: optional(
        number([0, 1, 2], "how nodes log in: 0 without, 1 with CHAP, 2 with mutual CHAP; follows from the credentials"),
      ),
      user: optional(text({ description: "CHAP user that nodes log in with", example: "node" })),
      password: optional(secret({ description: "CHAP password of nodes" })),
      mutual_user: optional(text({ description: "CHAP user that the target logs in with (mutual CHAP)" })),
      mutual_password: optional(secret({ description: "CHAP password of the target (mutual CHAP)" })),
      max_sessions: optional(
        whole({
          description:
            "sessions at once; 0 does not limit them. With 1, a second node is refused, also one that takes over after a crash until DSM drops the dead session",
          absent: "0 with targetPortals, else 1, the default of DSM",
          example: 0,
        }),
      ),
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

/** `lunSnapshotTemplate` */
export const lunSnapshotTemplate = record(
  {
    is_locked: optional(flag({ description: "keep DSM's retention rules from removing a snapshot" })),
    is_app_consistent: optional(flag({ description: "ask a Storage Console on the host to flush first" })),
  },
  { description: "how snapshots are made; a VolumeSnapshotClass may override it" },
);

/** What is wrong with a template; undefined for a valid one. */
export function templateFault(schema: v.GenericSchema, value: unknown): string | undefined {
  const { issues } = v.safeParse(schema, value);
  const [first] = issues ?? [];
  return first && `${v.getDotPath(first) ?? ""}: ${first.message}`.replace(/^: /, "");
}
