import { describe, expect, test } from "bun:test";
import { type ClusterObjects, movingOf } from "../../../cmd/cluster/move/cluster-objects.ts";
import { refusalsOf } from "../../../cmd/cluster/move/refusals.ts";
import { groupsOf, usersOf } from "../../../cmd/cluster/move/users.ts";
import { isMapping, type Mapping } from "../../../lib/core/mapping.ts";
import { merged } from "../../fakes/cluster/objects.ts";
import { claimAndVolume, statefulSet, storageClass } from "./world.ts";

const [pv = {}, pvc = {}] = claimAndVolume("data-db-0") as Mapping[];
const boundClaim = merged(pvc, {
  metadata: { uid: "u1" },
  status: { phase: "Bound", capacity: { storage: "20Gi" } },
}) as Mapping;
const boundVolume = merged(pv, { spec: { claimRef: { uid: "u1" } }, status: { phase: "Bound" } }) as Mapping;

const owned = (kind: string, name: string) => [{ kind, name, controller: true }];

const pod = (name: string, holder: readonly object[], more: object = {}): Mapping => ({
  kind: "Pod",
  metadata: { namespace: "shop", name, ownerReferences: holder },
  spec: { nodeName: "w1", volumes: [{ persistentVolumeClaim: { claimName: "data-db-0" } }] },
  ...more,
});

const deployment = (more: object = {}): Mapping => ({
  kind: "Deployment",
  metadata: { namespace: "shop", name: "web", ...more },
  spec: { replicas: 2, template: { spec: { volumes: [{ persistentVolumeClaim: { claimName: "data-db-0" } }] } } },
});

const usual: ClusterObjects = {
  claims: [boundClaim],
  volumes: [boundVolume],
  pods: [pod("db-0", owned("StatefulSet", "db"))],
  workloads: [statefulSet(1)],
  autoscalers: [],
  nodes: [{ kind: "Node", metadata: { name: "w1" }, status: { conditions: [{ type: "Ready", status: "True" }] } }],
  classes: [storageClass("slow", "a"), storageClass("fast", "b"), storageClass("same", "a")],
  served: { name: "csimux.storage", aliases: new Map([["old.example", "a"]]) },
};

const noPause = { isOwnerPaused: false, isGitopsPaused: false };

const refused = (change: Partial<ClusterObjects>, toClass = "fast", pauses = noPause): readonly string[] => {
  const objects = { ...usual, ...change };
  return refusalsOf(objects, [movingOf(objects, { namespace: "shop", name: "data-db-0" })], toClass, pauses);
};

const changedClaim = (patch: object): Partial<ClusterObjects> => ({ claims: [merged(boundClaim, patch) as Mapping] });
const changedVolume = (patch: object): Partial<ClusterObjects> => ({
  volumes: [merged(boundVolume, patch) as Mapping],
});
const changedSet = (patch: object): Partial<ClusterObjects> => ({
  workloads: [merged(statefulSet(1), patch) as Mapping],
});

const note = (step: string, toClass = "fast"): string =>
  JSON.stringify({
    ...{
      version: 1,
      step,
      toClass,
      volume: "moved-u1-1",
      target: "",
      rounds: 0,
      policy: "Delete",
      workloads: [],
      nodes: [],
    },
    claim: { metadata: { namespace: "shop", name: "data-db-0" } },
  });

describe("a move is refused before anything is changed", () => {
  test("of an ordinary claim of a StatefulSet it is not", () => {
    expect(refused({})).toEqual([]);
  });

  test("of a claim that a Deployment uses it is not, whether it runs or not", () => {
    const set = {
      kind: "ReplicaSet",
      metadata: { namespace: "shop", name: "web-1", ownerReferences: owned("Deployment", "web") },
    };
    const pods = [pod("web-1-x", owned("ReplicaSet", "web-1"))];
    expect(refused({ pods, workloads: [deployment(), set] })).toEqual([]);
    expect(refused({ pods: [], workloads: [deployment()] })).toEqual([]);
  });

  const table: readonly (readonly [string, Partial<ClusterObjects>, string, string?])[] = [
    ["a class that does not exist", {}, "the StorageClass none does not exist", "none"],
    ["a class of the same connection", {}, "is on connection a already, to which class same leads", "same"],
    ["a missing claim", { claims: [] }, "claim shop/data-db-0 does not exist"],
    ["a claim that is being deleted", changedClaim({ metadata: { deletionTimestamp: "now" } }), "is being deleted"],
    ["a pending claim", changedClaim({ status: { phase: "Pending" } }), "is Pending, not Bound"],
    [
      "a claim that was made again, with another volume, since its copy began",
      {
        ...changedClaim({ spec: { volumeName: "pvc-again" } }),
        ...changedVolume({ metadata: { annotations: { "csimux.storage/move": note("copy") } } }),
      },
      "is for another volume now (pvc-again): if that has data, keep it, and end the move of the earlier volume with kubectl annotate pv pvc-data-db-0 csimux.storage/move-",
    ],
    ["a claim without a volume", { volumes: [] }, "has no PersistentVolume"],
    [
      "a volume of another driver",
      changedVolume({ spec: { csi: { driver: "other.example" } } }),
      "has a volume of the driver other.example, but class fast belongs to csimux.storage",
    ],
    [
      "a second PersistentVolume of its storage",
      { volumes: [boundVolume, merged(boundVolume, { metadata: { name: "pvc-again" } }) as Mapping] },
      "has the same storage as the PersistentVolume pvc-again, whose users csimux does not stop",
    ],
    [
      "a second PersistentVolume of its storage under an alias",
      {
        volumes: [
          boundVolume,
          ...claimAndVolume("again", { by: "old.example", handle: "pvc-data-db-0" }).filter(
            each => each.kind !== pvc["kind"],
          ),
        ],
      },
      "has the same storage as the PersistentVolume pvc-again",
    ],
    ["a volume of no driver", changedVolume({ spec: { csi: null } }), "a volume that no CSI driver made"],
    [
      "a volume that is being deleted",
      changedVolume({ metadata: { deletionTimestamp: "now" } }),
      "the PersistentVolume of claim",
    ],
    [
      "a volume that is recycled",
      changedVolume({ spec: { persistentVolumeReclaimPolicy: "Recycle" } }),
      "reclaim policy Recycle",
    ],
    [
      "an ephemeral claim",
      changedClaim({ metadata: { ownerReferences: owned("Pod", "p") } }),
      "is an ephemeral volume of pod p",
    ],
    [
      "a claim of an operator",
      changedClaim({ metadata: { ownerReferences: owned("Cluster", "pg") } }),
      "is owned by Cluster pg: pause",
    ],
    [
      "a claim that grows",
      changedClaim({ spec: { resources: { requests: { storage: "21Gi" } } } }),
      "is being expanded",
    ],
    [
      "a file system that grows",
      changedClaim({ status: { conditions: [{ type: "FileSystemResizePending" }] } }),
      "is being expanded",
    ],
    ["a huge claim", changedClaim({ metadata: { annotations: { big: "x".repeat(110_000) } } }), "more than 100 KiB"],
    [
      "a claim of Flux",
      changedClaim({ metadata: { labels: { "kustomize.toolkit.fluxcd.io/name": "k" } } }),
      "managed by Flux",
    ],
    [
      "a set of Argo CD",
      changedSet({ metadata: { annotations: { "argocd.argoproj.io/tracking-id": "x" } } }),
      "managed by Argo CD",
    ],
    ["a set of KEDA", changedSet({ metadata: { labels: { "scaledobject.keda.sh/name": "x" } } }), "managed by KEDA"],
    [
      "a set of an operator",
      changedSet({ metadata: { ownerReferences: owned("Postgres", "pg") } }),
      "is owned by Postgres pg",
    ],
    [
      "a set that deletes claims when it is scaled down",
      changedSet({ spec: { persistentVolumeClaimRetentionPolicy: { whenScaled: "Delete" } } }),
      "deletes its claims when it is scaled down",
    ],
    [
      "an autoscaler",
      {
        autoscalers: [
          { metadata: { namespace: "shop", name: "h" }, spec: { scaleTargetRef: { kind: "StatefulSet", name: "db" } } },
        ],
      },
      "managed by the HorizontalPodAutoscaler h",
    ],
    ["a pod without an owner", { pods: [pod("alone", [])] }, "pod alone uses claim shop/data-db-0 and has no owner"],
    ["a pod of a Job", { pods: [pod("j", owned("Job", "load"))] }, "pod j of Job load uses claim"],
    [
      "a DaemonSet",
      { workloads: [{ ...deployment(), kind: "DaemonSet" }], pods: [] },
      "DaemonSet web uses claim shop/data-db-0, and it cannot be stopped",
    ],
    [
      "a node that is not ready",
      { nodes: [{ metadata: { name: "w1" }, status: { conditions: [{ type: "Ready", status: "Unknown" }] } }] },
      "on node w1, which is not ready",
    ],
    [
      "further claims of the same template",
      {
        claims: [boundClaim, ...claimAndVolume("data-db-1").filter(each => each.kind === "PersistentVolumeClaim")],
      },
      "move together: data-db-1",
    ],
    [
      "a move to another class",
      changedVolume({ metadata: { annotations: { "csimux.storage/move": note("copy", "gold") } } }),
      "is being moved to class gold",
    ],
    [
      "a move that is switched",
      changedVolume({ metadata: { annotations: { "csimux.storage/move": note("switched") } } }),
      "finish or undo first",
    ],
    [
      "a move that is undone",
      changedVolume({ metadata: { annotations: { "csimux.storage/move": note("undone") } } }),
      "run csimux move finish first",
    ],
  ];
  test.each(table)("%s", (_, change, text, toClass = "fast") => {
    const reasons = refused(change, toClass);
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toContain(text);
    expect(reasons[0]).not.toContain("\n");
  });

  test("what is paused is not refused", () => {
    const holder = changedClaim({ metadata: { ownerReferences: owned("Cluster", "pg") } });
    expect(refused(holder, "fast", { ...noPause, isOwnerPaused: true })).toEqual([]);
    const flux = changedSet({ metadata: { labels: { "helm.toolkit.fluxcd.io/name": "x" } } });
    expect(refused(flux, "fast", { ...noPause, isGitopsPaused: true })).toEqual([]);
  });

  test("a move of the same class may continue", () => {
    const begun = changedVolume({ metadata: { annotations: { "csimux.storage/move": note("copy") } } });
    expect(refused(begun)).toEqual([]);
  });

  test("a claim of the same name in another namespace is not meant", () => {
    const other = pod("alone", [], { metadata: { namespace: "other", name: "alone" } });
    expect(refused({ pods: [...usual.pods, other] })).toEqual([]);
  });
});

describe("a note that csimux did not write is refused, because its names are stopped and deleted", () => {
  const good = JSON.parse(note("stop")) as Mapping;
  test.each([
    ["no JSON", "copy"],
    ["a newer version", JSON.stringify({ ...good, version: 2 })],
    ["another claim", JSON.stringify({ ...good, claim: { metadata: { namespace: "shop", name: "other" } } })],
    [
      "another namespace",
      JSON.stringify({ ...good, claim: { metadata: { namespace: "kube-system", name: "data-db-0" } } }),
    ],
    ["a flag for a volume", JSON.stringify({ ...good, volume: "--all" })],
    ["a path for a volume", JSON.stringify({ ...good, volume: "../pv" })],
    ["a kind that is not scaled", JSON.stringify({ ...good, workloads: [{ kind: "Node", name: "w1", replicas: 1 }] })],
    [
      "a flag for a workload",
      JSON.stringify({ ...good, workloads: [{ kind: "Deployment", name: "--all", replicas: 1 }] }),
    ],
    [
      "a negative number of pods",
      JSON.stringify({ ...good, workloads: [{ kind: "Deployment", name: "a", replicas: -1 }] }),
    ],
    ["a flag for a node", JSON.stringify({ ...good, nodes: ["--all"] })],
    ["a copy without a connection", JSON.stringify({ ...good, target: "../../etc" })],
    ["an unknown policy", JSON.stringify({ ...good, policy: "Recycle" })],
    ["an unknown step", JSON.stringify({ ...good, step: "format" })],
  ])("%s", (_, text) => {
    const objects = { ...usual, ...changedVolume({ metadata: { annotations: { "csimux.storage/move": text } } }) };
    expect(() => movingOf(objects, { namespace: "shop", name: "data-db-0" })).toThrow(
      "is damaged or of a newer csimux",
    );
  });
});

test("claims that a workload uses together are stopped together, others apart", () => {
  const named = (name: string) => ({ namespace: "shop", name });
  const uses = (name: string, ...claims: readonly string[]): Mapping => ({
    kind: "Deployment",
    metadata: { namespace: "shop", name },
    spec: { template: { spec: { volumes: claims.map(claimName => ({ persistentVolumeClaim: { claimName } })) } } },
  });
  const workloads = [uses("x", "a", "b"), uses("y", "c", "d"), uses("z", "b", "c"), uses("w", "e")];
  const users = (claim: { readonly namespace: string; readonly name: string }) =>
    usersOf({ pods: [], workloads }, claim);
  const groups = groupsOf(["a", "d", "e", "c", "b"].map(named), users);
  expect(groups.map(group => group.map(({ name }) => name).sort()).sort()).toEqual([["a", "b", "c", "d"], ["e"]]);
  expect(isMapping(workloads[0])).toBe(true);
});
