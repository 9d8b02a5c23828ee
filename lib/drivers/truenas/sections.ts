import * as v from "valibot";
import { portals, somePortal, someTransport, transports } from "../../schema/connecting.ts";
import {
  type About,
  anything,
  consistent,
  described,
  filled,
  flag,
  host,
  list,
  mapOf,
  oneOf,
  optional,
  type Reading,
  record,
  text,
  whole,
} from "../../schema/parts.ts";
import { naming, shaped, templated } from "../../schema/storage.ts";

import { isNetwork } from "./shares/networks.ts";

/** The sections `nfs:`, `smb:`, `iscsi:`, `nvmeof:` of a connection file: how TrueNAS shares volumes. */

/** Keys of drivers for plain hosts: TrueNAS makes shares and targets itself. */
const ofPlainHosts = (...keys: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(keys.map(key => [key, "TrueNAS creates shares and targets itself"]));

const shareHost = host({ description: "the system as nodes reach it", example: "nas.example.org" });

const hosts = (description: string) =>
  optional(list(filled({ description: "host name, address or pattern" }), { description, example: ["10.0.0.11"] }), []);

const networkText = "must be a network such as 10.0.0.0/24";
const network = described(
  v.pipe(v.string(), v.regex(/^[0-9A-Fa-f:.]+\/[0-9]{1,3}$/, networkText), v.check(isNetwork, networkText)),
  { description: "network with its prefix length" },
);

const mapped = (description: string) => optional(text({ description, absent: "not mapped", example: "root" }), "");

/** `nfs:` */
export const nfs = record(
  {
    shareHost,
    shareCommentTemplate: optional(
      templated({
        description: "comment of every share, from `name`, `parameters`, `csi.name`, `csi.version`, `zfs.datasetName`",
        absent: "names the driver and the dataset",
      }),
    ),
    shareAlldirs: optional(flag({ description: "nodes may mount folders below the share; only before 22.12" })),
    shareAllowedHosts: hosts("hosts that may mount; empty allows all"),
    shareAllowedNetworks: optional(
      list(network, { description: "networks that may mount; empty allows all", example: ["10.0.0.0/24"] }),
      [],
    ),
    shareMaprootUser: mapped("user that root of a node becomes"),
    shareMaprootGroup: mapped("group that root of a node becomes: wheel on CORE, root on SCALE"),
    shareMapallUser: mapped("user that every user of a node becomes"),
    shareMapallGroup: mapped("group that every user of a node becomes"),
  },
  {
    description: "sharing over NFS",
    aliases: { shareAllDirs: "shareAlldirs" },
    ignored: ofPlainHosts("shareStrategy", "shareStrategySetDatasetProperties"),
  },
);

const shareName = /^[^%<>*?|/\\+=;:",[\]\s]*$/;

const option = (description: string) =>
  optional(flag({ description, absent: "not sent: the default of the system applies" }));

/** Fields that 12.0 to 26.0 refuse: the first three exist up to 11.3, the fourth up to 11.2 (plugins/smb.py, sharingsmb_create). */
const ofOldShares = Object.fromEntries(
  ["shareGuestOnly", "shareShowHiddenFiles", "shareDefaultPermissions", "shareStorageTask"].map(key => [
    key,
    "shares of TrueNAS have no such field since version 12.0",
  ]),
);

/** `smb:` */
export const smb = record(
  {
    shareHost,
    ...naming(shareName, 'must not contain spaces or any of % < > * ? | / \\ + = ; : " , [ ]'),
    shareAuxiliaryConfigurationTemplate: optional(
      templated({ description: "lines of smb.conf for every share, from `name` and `parameters`" }),
    ),
    shareHome: option("share the home folders of users; a system has one such share at most"),
    shareAllowedHosts: optional(
      list(filled({ description: "host or network" }), { description: "who may connect; empty allows all" }),
    ),
    shareDeniedHosts: optional(
      list(filled({ description: "host or network" }), { description: "who may not connect" }),
    ),
    shareGuestOk: option("connect without a password"),
    shareRecycleBin: option("keep deleted files in a recycle bin"),
    shareBrowsable: option("show the share in listings"),
    shareAccessBasedEnumeration: option("show users only what they may read"),
    shareTimeMachine: option(
      "offer the share to Apple's Time Machine; TrueNAS refuses that unless mDNS and the SMB2/3 protocol extensions for Apple are on",
    ),
  },
  {
    description: "sharing over SMB",
    aliases: { shareBrowseable: "shareBrowsable" },
    ignored: { ...ofPlainHosts("shareStrategy", "shareStrategySetDatasetProperties"), ...ofOldShares },
  },
);

/** Refers to an object of the API by its id, or by a word that people see. */
const choice = (about: About): v.GenericSchema<unknown, number | string> =>
  described(
    v.pipe(
      v.union([v.number(), v.string()], "must be an id or a name"),
      v.transform(value => (typeof value === "string" && /^[0-9]+$/.test(value) ? Number(value) : value)),
      v.check(
        value => (typeof value === "number" ? Number.isInteger(value) && value > 0 : value.trim() !== ""),
        "must be an id of at least 1, or a name",
      ),
    ),
    about,
  );

const authTypes = ["None", "CHAP", "CHAP Mutual", "NONE", "CHAP_MUTUAL", ""] as const;

/** democratic-csi sends these words in capitals, so that "none" and "chap" are right there. */
const inAnyCase = (value: unknown): Reading | undefined => {
  const words: readonly unknown[] = authTypes;
  const word = authTypes.find(each => each.toLowerCase() === String(value).toLowerCase());
  if (word === undefined || words.includes(value)) return undefined;
  return { value: word, warning: [`"${word}" is meant`, `write "${word}"`] };
};

const targetGroup = consistent(
  record(
    {
      targetGroupPortalGroup: choice({
        description:
          "the portal: its id in the API (not the number in the web interface), its comment, or an address that it listens on",
        example: 1,
      }),
      targetGroupInitiatorGroup: optional(
        choice({
          description: "the initiator group: its id, its comment, or the name of an initiator in it",
          absent: "any initiator may log in",
          example: 1,
        }),
      ),
      targetGroupAuthType: optional(
        oneOf(authTypes, { description: "how initiators authenticate", example: "CHAP", reading: inAnyCase }),
        "None",
      ),
      targetGroupAuthGroup: optional(
        whole({ description: "number of the authorized access entry; required for CHAP", example: 1 }),
      ),
    },
    { description: "a portal of the targets, and who may log in there" },
  ),
  function* (value) {
    if (value.targetGroupAuthType.startsWith("CHAP") && !value.targetGroupAuthGroup)
      yield [["targetGroupAuthGroup"], `${value.targetGroupAuthType} needs the number of an authorized access entry`];
  },
);

const sectors = [512, 1024, 2048, 4096] as const;
const speeds = ["SSD", "UNKNOWN", "Unknown", "5400", "7200", "10000", "15000", ""] as const;

const extent = {
  extentCommentTemplate: optional(
    templated({ description: "comment of every extent, from `name` and `parameters`", absent: "none" }),
  ),
  extentInsecureTpc: optional(flag({ description: "allow initiators to copy between extents without checks" }), true),
  extentXenCompat: optional(flag({ description: "compatibility with Xen initiators" }), false),
  extentDisablePhysicalBlocksize: optional(flag({ description: "hide the physical block size from initiators" }), true),
  extentBlocksize: optional(
    v.pipe(
      v.picklist(sectors, `must be one of ${sectors.join(", ")}`),
      v.metadata({ description: "size of the logical blocks that initiators see", unit: "bytes", example: 512 }),
    ),
    512,
  ),
  extentRpm: optional(
    oneOf(speeds, { description: "type of medium that initiators see; empty: the default of the system" }),
    "SSD",
  ),
  extentAvailThreshold: optional(
    whole({ description: "warn below this much free space; 0 never warns", unit: "percent" }, 0, 99),
    0,
  ),
};

/** `iscsi:` */
export const iscsi = consistent(
  record(
    {
      ...portals,
      ...naming(/^[A-Za-z0-9.:-]*$/, 'must consist of letters, digits, ".", ":" and "-"'),
      targetGroups: list(targetGroup, {
        description: "the portals of the targets, and who may log in",
        example: [{ targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1, targetGroupAuthType: "None" }],
      }),
      ...extent,
    },
    { description: "sharing over iSCSI", ignored: ofPlainHosts("shareStrategy", "shareStrategyTargetCli") },
  ),
  function* (value) {
    yield* somePortal(value);
    if (value.targetGroups.length === 0)
      yield [["targetGroups"], "must contain at least one group; without one no node can log in"];
  },
);

const fields = (of: string) =>
  optional(
    mapOf(anything({ description: "value of the field" }), {
      description: `fields of the API for every ${of}, sent unchanged`,
    }),
  );

/** `nvmeof:` */
export const nvmeof = consistent(
  record(
    {
      ...transports,
      ...naming(/^[A-Za-z0-9._:-]*$/, 'must consist of letters, digits, ".", ":", "-" and "_"'),
      ports: optional(
        list(choice({ description: "id of an NVMe-oF port in the API, or its address" }), {
          description: "existing ports that export the volumes",
          absent: "the ports that listen on the addresses in transport and transports",
          example: [1, "10.0.0.5:4420"],
        }),
        [],
      ),
      hosts: optional(
        list(
          record(
            {
              hostnqn: shaped(
                /^nqn\.[^\s,]{7,219}$/,
                "must be the name of a host with 11 to 223 characters, as in /etc/nvme/hostnqn",
                {
                  description: "name of the host",
                  example: "nqn.2014-08.org.nvmexpress:uuid:2cd3a8f6-4b1c-4b8e-9d7f-0a6d0c4bb101",
                },
              ),
              dhchapKey: optional(
                text({
                  description: "DH-HMAC-CHAP key of the host; nodes get theirs from the secret dhchap-secret",
                  secret: true,
                }),
              ),
              dhchapCtrlKey: optional(
                text({ description: "key with which TrueNAS authenticates to the host", secret: true }),
              ),
            },
            { description: "a host that may connect" },
          ),
          { description: "the only hosts that may connect to volumes", absent: "any host may connect" },
        ),
        [],
      ),
      subsystemTemplate: fields("subsystem"),
      namespaceTemplate: fields("namespace"),
    },
    {
      description: "sharing over NVMe over fabrics; TrueNAS 25.10 and newer",
      ignored: ofPlainHosts("shareStrategy", "shareStrategyNvmetCli", "shareStrategySpdkCli"),
    },
  ),
  function* (value) {
    yield* someTransport(value);
    const fabric = [value.transport, ...value.transports].some(each => each.startsWith("fc://"));
    if (value.ports.length === 0 && fabric)
      yield [["ports"], "must name the ports, because an address fc:// names none"];
    for (const [at, host] of value.hosts.entries())
      if (host.dhchapCtrlKey && !host.dhchapKey)
        yield [["hosts", at, "dhchapKey"], "the other direction needs a key of the host, too"];
  },
);

export type NfsSection = v.InferOutput<typeof nfs>;
export type SmbSection = v.InferOutput<typeof smb>;
export type IscsiSection = v.InferOutput<typeof iscsi>;
export type NvmeofSection = v.InferOutput<typeof nvmeof>;
