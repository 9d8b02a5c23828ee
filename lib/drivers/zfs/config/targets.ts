import { chapPairs, portals, somePortal, someTransport, transports } from "../../../schema/connecting.ts";
import {
  consistent,
  flag,
  list,
  mapOf,
  oneOf,
  optional,
  path,
  record,
  scalar,
  secret,
  text,
} from "../../../schema/parts.ts";
import { iqnBase, naming, nqnBase, withKeys } from "../../../schema/storage.ts";

/** How block devices of a plain storage host are exported: the blocks `iscsi:` and `nvmeof:`. */

/** The kernel and the tools that show its values keep one word: blanks around it are lost. */
function* oneWordEach(values: Readonly<Record<string, unknown>>): Generator<[string[], string]> {
  for (const [key, value] of Object.entries(values))
    if (/\s/.test(String(value ?? ""))) yield [[key], "must be one word, without blanks and line breaks"];
}

/** What the kernel would store as something else (Linux, iscsi_target_configfs.c): NULL unsets a value, and 255 bytes is the longest one. */
function* keptWhole(values: Readonly<Record<string, unknown>>): Generator<[string[], string]> {
  for (const [key, value] of Object.entries(values)) {
    const text = typeof value === "string" ? value : "";
    if (text.startsWith("NULL")) yield [[key], 'must not begin with "NULL", which unsets it in the kernel'];
    if (Buffer.byteLength(text) > 255) yield [[key], "must have at most 255 bytes"];
    if ([...text].some(each => each < " " || each === "\u007f")) yield [[key], "must have no control characters"];
  }
}

const attributes = (description: string, example: unknown) =>
  optional(
    consistent(
      withKeys(
        /^[A-Za-z0-9_]+$/,
        "must be the name of an attribute: letters, digits and _",
        mapOf(scalar({ description: "value of the attribute" }), { description, example }),
      ),
      oneWordEach,
    ),
  );

const chap = consistent(
  record(
    {
      userid: optional(text({ description: "CHAP user that nodes log in with", example: "node" })),
      password: optional(secret({ description: "CHAP password of nodes" })),
      mutual_userid: optional(text({ description: "CHAP user that the target logs in with (mutual CHAP)" })),
      mutual_password: optional(secret({ description: "CHAP password of the target (mutual CHAP)" })),
    },
    { description: "CHAP credentials of every target", aliases: { username: "userid", user: "userid" } },
  ),
  function* (value) {
    yield* chapPairs(value, {
      user: "userid",
      password: "password",
      mutualUser: "mutual_userid",
      mutualPassword: "mutual_password",
    });
    yield* oneWordEach(value);
    yield* keptWhole(value);
  },
);

const targetCli = record(
  {
    sudoEnabled: optional(flag({ description: "change the kernel's targets through sudo (python3)" }), false),
    basename: iqnBase({
      description: "beginning of the target names; the name of the volume follows behind a colon",
      example: "iqn.2024-01.org.example:storage",
    }),
    tpg: optional(
      record(
        {
          attributes: attributes("attributes of every target portal group", {
            authentication: 0,
            generate_node_acls: 1,
            cache_dynamic_acls: 1,
            demo_mode_write_protect: 0,
          }),
          auth: optional(chap),
        },
        { description: "the target portal group of every target" },
      ),
    ),
    block: optional(
      record(
        { attributes: attributes("attributes of every backstore", { emulate_tpu: 1 }) },
        { description: "the backstore of every volume" },
      ),
    ),
  },
  { description: "settings of targetCli" },
);

/** `iscsi:` */
export const iscsi = consistent(
  record(
    {
      ...portals,
      ...naming(/^[A-Za-z0-9.:-]*$/, 'must consist of letters, digits, ".", ":" and "-"'),
      shareStrategy: oneOf(["targetCli"], {
        description: "what makes the targets: the kernel of the host (LIO), as targetcli would",
        example: "targetCli",
      }),
      shareStrategyTargetCli: targetCli,
    },
    { description: "sharing over iSCSI" },
  ),
  somePortal,
);

const subsystem = optional(
  record(
    { attributes: attributes("attributes of every subsystem", { allow_any_host: 1 }) },
    { description: "the subsystem of every volume" },
  ),
);

const basename = nqnBase({
  description: "beginning of the subsystem names; the name of the volume follows behind a colon",
  example: "nqn.2024-01.org.example:storage",
});

const nvmetCli = consistent(
  record(
    {
      sudoEnabled: optional(flag({ description: "change the kernel's subsystems through sudo (python3)" }), false),
      configPath: optional(
        path({
          description: "where nvmetcli saves and restores its configuration",
          absent: "nvmetcli's own: /etc/nvmet/config.json",
        }),
      ),
      configIsImportedFilePath: optional(
        path({
          description:
            "a file that exists once the storage host has restored its configuration; nothing is changed before",
          example: "/run/nvmet-config-loaded",
        }),
      ),
      basename,
      ports: list(scalar({ description: "number of an nvmet port" }), {
        description: "ports, made beforehand, that volumes are reachable through",
        example: ["1"],
      }),
      subsystem,
    },
    {
      description: "settings of nvmetCli",
      ignored: {
        namespace: "nvmetcli cannot set attributes of namespaces",
        nvmetcliPath: "csimux changes the kernel's configuration itself, as nvmetcli would",
      },
    },
  ),
  function* (value) {
    if (value.ports.length === 0) yield [["ports"], "must name at least one port, or no node can reach a volume"];
    const unfit = value.ports.find(port => !/^[0-9]{1,5}$/.test(String(port)));
    if (unfit !== undefined) yield [["ports"], "must be numbers of ports, as nvmetcli shows them below /ports"];
  },
);

const listener = record(
  {
    trtype: scalar({ description: "transport: tcp, rdma, fc", example: "tcp" }),
    traddr: scalar({ description: "address that SPDK listens on", example: "10.0.0.5" }),
    trsvcid: optional(scalar({ description: "port that SPDK listens on", example: "4420" })),
    adrfam: optional(scalar({ description: "address family: ipv4, ipv6, ib, fc", example: "ipv4" })),
  },
  { description: "one address" },
);

const spdkCli = consistent(
  record(
    {
      sudoEnabled: optional(flag({ description: "speak with SPDK through sudo" }), false),
      rpcSocket: optional(
        path({ description: "socket that SPDK listens on for JSON-RPC; csimux speaks it through python3 of the host" }),
        "/var/tmp/spdk.sock",
      ),
      configPath: optional(
        path({
          description: "where SPDK saves its configuration",
          absent: "not saved",
          example: "/etc/spdk/spdk.json",
        }),
      ),
      basename,
      bdev: record(
        {
          type: oneOf(["uring", "aio"], { description: "how SPDK reads the volume", example: "uring" }),
          attributes: attributes("arguments with which the block device is made", { block_size: 512 }),
        },
        { description: "the block device of every volume" },
      ),
      subsystem,
      listeners: list(listener, { description: "addresses that volumes are reachable at" }),
    },
    {
      description: "settings of spdkCli",
      ignored: { spdkcliPath: "csimux speaks with SPDK itself, over rpcSocket" },
    },
  ),
  function* (value) {
    if (value.listeners.length === 0)
      yield [["listeners"], "must name at least one address, or no node can reach a volume"];
  },
);

/** `nvmeof:` */
export const nvmeof = consistent(
  record(
    {
      ...transports,
      ...naming(/^[A-Za-z0-9._:-]*$/, 'must consist of letters, digits, ".", ":", "-" and "_"'),
      shareStrategy: oneOf(["nvmetCli", "spdkCli"], {
        description: "what makes the subsystems: the kernel of the host, as nvmetcli would, or SPDK over its JSON-RPC",
        example: "nvmetCli",
      }),
      shareStrategyNvmetCli: optional(nvmetCli),
      shareStrategySpdkCli: optional(spdkCli),
    },
    { description: "sharing over NVMe over fabrics" },
  ),
  function* (value) {
    yield* someTransport(value);
    const wanted = value.shareStrategy === "nvmetCli" ? "shareStrategyNvmetCli" : "shareStrategySpdkCli";
    if (value[wanted] === undefined) yield [[wanted], `shareStrategy "${value.shareStrategy}" needs this block`];
  },
);
