import type { ClusterFacts } from "../../lib/config/cluster.ts";
import type { ConnectionStatus, StatusAnswer } from "../../lib/observe/status.ts";

const now = "2026-11-23T08:00:00.000Z";
const ago = (seconds: number): string => new Date(Date.parse(now) - seconds * 1000).toISOString();

/** Where a connection of a number is, and a node. */
const zone = (index: number, zones: number): string => `zone=ber${(index % zones) + 1}-a`;

/** A connection that works. */
export const connection = (name: string, more: Partial<ConnectionStatus> = {}): ConnectionStatus => ({
  name,
  state: "good",
  since: ago(86_400),
  driver: "freenas-api-nfs",
  suspended: false,
  accessibleTopology: [],
  inUse: 0,
  freeBytes: { value: 3.2 * 1024 ** 4, at: ago(30) },
  volumes: { value: 2, at: ago(30) },
  lastSuccess: { method: "CreateVolume", at: ago(400) },
  storage: { state: "good", at: ago(20) },
  ...more,
});

/** A connection whose storage system does not answer. */
export const dead = (name: string, more: Partial<ConnectionStatus> = {}): ConnectionStatus => {
  const reason = "connect ETIMEDOUT 192.0.2.7:443";
  return connection(name, {
    state: "unreachable",
    since: ago(1_260),
    storage: { state: "unreachable", at: ago(20), reason },
    outage: { since: ago(1_260), next: ago(-12), reason },
    lastFailure: {
      method: "CreateVolume",
      at: ago(90),
      code: "unavailable",
      message: `connection "${name}": the storage system does not answer: ${reason}; csimux retries`,
    },
    freeBytes: undefined,
    ...more,
  });
};

/** The answer of a csimux with these connections, each with some volumes. */
export const answerOf = (
  connections: readonly ConnectionStatus[],
  volumes: number,
  more: Partial<StatusAnswer> = {},
): StatusAnswer => ({
  name: "csimux.storage",
  version: "0.1.0",
  commit: "abc",
  modes: ["controller"],
  started: ago(200_000),
  now,
  connections,
  groups: [],
  health: [],
  calls: [],
  jobs: [],
  details: { config: "/etc/csimux/proxy.yaml", state: "/s", prefix: "csimux.storage", metrics: undefined, log: [] },
  inventory: connections.map(({ name, storage }) =>
    storage?.state === "good"
      ? {
          connection: name,
          volumes: Array.from({ length: volumes }, (_, index) => ({
            id: `v:${name}/pvc-${String(index).padStart(4, "0")}`,
            bytes: (1 + (index % 90)) * 1024 ** 3,
            snapshots: index % 4,
          })),
          problem: undefined,
        }
      : { connection: name, volumes: [], problem: "the volumes cannot be listed: connect ETIMEDOUT 192.0.2.7:443" },
  ),
  ...more,
});

type Running = NonNullable<StatusAnswer["copies"]>[number];
type Recorded = NonNullable<NonNullable<StatusAnswer["inventory"]>[number]["copies"]>[number];

/** A copy that runs. */
export const copyRunning = (target: string, more: Partial<Running> = {}): Running => ({
  ...{ target, from: "nas1", to: "nas2", method: "zfs-send", state: "copying", stalled: false },
  ...{ done: 37 * 1024 ** 3, total: 120 * 1024 ** 3, perSecond: 112 * 1024 ** 2 },
  ...more,
});

/** A copy as its record tells; it was last asked for an hour ago. */
export const copyRecorded = (target: string, more: Partial<Recorded> = {}): Recorded => ({
  ...{ target, source: "v:nas1/pvc-source", role: "create", state: "paused", method: "zfs-send", fault: "" },
  ...{ done: 37 * 1024 ** 3, total: 120 * 1024 ** 3, asked: Date.parse(ago(3_600)) / 1_000 },
  ...more,
});

/** 30 connections in 12 zones, one of them dead, with 5,100 volumes, and 100 nodes. */
export function large(): { readonly answer: StatusAnswer; readonly cluster: ClusterFacts } {
  const connections = Array.from({ length: 30 }, (_, index) => {
    const accessibleTopology =
      index % 10 === 9 ? [] : [zone(index, 12), ...(index % 7 === 3 ? [zone(index + 1, 12)] : [])];
    const name = `storage-berlin-${String(index + 1).padStart(2, "0")}`;
    return (index === 4 ? dead : connection)(name, { accessibleTopology, suspended: index === 8 });
  });
  const nodes = Array.from({ length: 100 }, (_, index) => {
    const [key = "", value = ""] = zone(index, 12).split("=");
    return { name: `worker-${String(index + 1).padStart(3, "0")}`, labels: { [`csimux.storage/${key}`]: value } };
  });
  const answer = answerOf(connections, 176, {
    groups: [{ name: "berlin", policy: "most-free", members: connections.slice(0, 6).map(({ name }) => name) }],
    health: [
      {
        ...{ seenBy: "controller", of: "storage", connection: "storage-berlin-02", reason: "PoolDegraded" },
        ...{ severity: "degraded", message: "pool tank: 1 of 8 disks is FAULTED", since: ago(7_000) },
      },
      {
        ...{ seenBy: "controller", of: "volume", connection: "storage-berlin-03", reason: "TargetMissing" },
        ...{ volume: "v:storage-berlin-03/pvc-0001", severity: "inaccessible", message: "no target", since: ago(100) },
      },
    ],
    calls: [{ method: "CreateVolume", connection: "storage-berlin-01", object: "pvc-9", since: ago(3) }],
    copies: connections.map(({ name }, index) =>
      copyRunning(`v:${name}/pvc-1f0c2a77-5b1e-4c53-9d0e-0123456789ab`, {
        ...(index === 3 && { state: "failing", perSecond: 0, fault: `${name}: cannot receive: out of space` }),
        ...(index > 3 && { state: "waiting", ahead: index, done: 0, perSecond: 0 }),
      }),
    ),
  });
  const claims = (answer.inventory ?? []).flatMap(({ volumes }) =>
    volumes.map(({ id }, index) => ({ handle: id, volume: `pvc-${id}`, claim: `team-${index % 9}/data-${index}` })),
  );
  return { answer, cluster: { nodes, claims, problems: [] } };
}

/** What a hostile name or message may contain: elements, attributes, and characters that change how the text around them looks. */
const hostileText = `"><img src=x onerror=window.pwned=1><script>window.pwned=1</script></title></style></svg>' onmouseover='window.pwned=1\u202e\u2066\u200b\0\x1b[31m\ud800]]>`;

/** An answer in which everything that comes from outside is hostile. */
export function hostile(): { readonly answer: StatusAnswer; readonly cluster: ClusterFacts } {
  const name = hostileText;
  const topology = [`zone=${name}`];
  const bad = connection(name, {
    accessibleTopology: topology,
    driver: name,
    state: "login-refused",
    file: { state: "degraded", since: now },
    problem: name,
    storage: { state: "login-refused", at: now, reason: name },
    lastFailure: { method: name, at: now, code: "internal", message: name },
  });
  const answer = answerOf([bad, connection("ok", { accessibleTopology: topology })], 1, {
    name,
    node: name,
    folderProblem: name,
    groups: [{ name, policy: "spread", members: [name] }],
    health: [
      { seenBy: "node", of: "volume", volume: name, reason: name, severity: "data-loss", message: name, since: now },
    ],
    calls: [{ method: name, connection: name, object: name, since: now }],
    jobs: [{ what: name, since: now }],
    copies: [copyRunning(`v:a/${name}`, { from: name, to: name, state: "failing", fault: name })],
    inventory: [
      {
        ...{ connection: name, volumes: [{ id: name, bytes: 1, snapshots: 1 }], problem: name },
        copies: [
          copyRecorded(`v:a/${name}`, { source: name, fault: name }),
          copyRecorded(name, { source: name, fault: name, done: Number.MAX_VALUE, asked: Number.MAX_VALUE }),
        ],
      },
      { connection: "ok", volumes: [], problem: undefined },
    ],
  });
  const nodes = [{ name, labels: { "csimux.storage/zone": name } }];
  return { answer, cluster: { nodes, claims: [{ handle: name, volume: name, claim: name }], problems: [name] } };
}
