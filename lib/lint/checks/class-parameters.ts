import { type Path, problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { driverParameters, factsOf, filesystemsOf } from "../facts.ts";
import { at, type ClassObject, type ConnectionFile, mappingAt, textAt } from "../lint-input.ts";

const secretKinds = [
  "provisioner",
  "controller-publish",
  "node-stage",
  "node-publish",
  "controller-expand",
  "node-expand",
  "controller-modify",
  "snapshotter",
  "snapshotter-list",
];

const common = [
  ...secretKinds.flatMap(kind => [
    `csi.storage.k8s.io/${kind}-secret-name`,
    `csi.storage.k8s.io/${kind}-secret-namespace`,
  ]),
  "csi.storage.k8s.io/secret-name",
  "csi.storage.k8s.io/secret-namespace",
  "csi.storage.k8s.io/pvc/name",
  "csi.storage.k8s.io/pvc/namespace",
  "csi.storage.k8s.io/pv/name",
  "connection",
];

const known: Readonly<Record<ClassObject["kind"], readonly string[]>> = {
  storage: [...common, "fsType", "csi.storage.k8s.io/fstype", ...driverParameters("volume")],
  snapshot: [...common, ...driverParameters("snapshot")],
};

const booleans = new Set(["detachedVolumesFromSnapshots", "detachedVolumesFromVolumes", "detachedSnapshots"]);

/** What a branch of democratic-csi reads that was never released, and csimux has by other names. */
const unread: ReadonlySet<string> = new Set(["config", "load-config-from-pvc"]);

/** `democratic-csi.org/<instance or driver>/key` and `democratic-csi.org/key` mean `key`. */
const plainKey = (key: string): string => key.replace(/^democratic-csi\.org\/(?:[^/]+\/)?/, "");

/** Rules about the parameters of one class. */
export function* parameters(each: ClassObject, members: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const all = mappingAt(each.value, "parameters");
  for (const [key, value] of Object.entries(all)) {
    const path = [...each.path, "parameters", key];
    const plain = plainKey(key);
    if (typeof value !== "string") {
      const what = value === null ? "nothing" : typeof value === "object" ? "a structure" : `a ${typeof value}`;
      yield problem(
        "parameter-not-text",
        path,
        `Kubernetes accepts only text here, not ${what}`,
        "put the value in quotes",
      );
    } else if (booleans.has(plain) && value !== "true" && value !== "false") {
      yield problem("parameter-value", path, 'only "true" and "false" have a meaning here', 'write "true" or "false"');
    }
    if (usedInTemplate(plain, members)) continue;
    if (each.kind === "storage" && unread.has(plain)) yield withoutReader(key, path);
    else if (!known[each.kind].includes(plain)) yield unknown(each.kind, key, plain, path);
    else yield* idle(each.kind, plain, path, members);
  }
  yield* secretPairs(each);
  if (each.kind === "storage") yield* login(each, members);
  if (each.kind === "storage") yield* fsType(each, members);
  else yield* snapshotDriver(each);
}

/** external-provisioner and kubelet want name and namespace of a secret, or neither. */
function* secretPairs(each: ClassObject): Iterable<SchemaFinding> {
  for (const kind of [...secretKinds, ""]) {
    const stem = `csi.storage.k8s.io/${kind}${kind === "" ? "" : "-"}secret-`;
    for (const [one, other] of [
      ["name", "namespace"],
      ["namespace", "name"],
    ] as const) {
      const given = textAt(each.value, "parameters", stem + one);
      if (given === undefined || textAt(each.value, "parameters", stem + other) !== undefined) continue;
      const path = [...each.path, "parameters", stem + one];
      const message = `the ${one} of a secret stands here without its ${other}`;
      yield problem("parameter-pair", path, message, `add "${stem}${other}"`, "key");
    }
  }
}

/** What a node lacks without a secret, by protocol: only a secret tells it who mounts, or with which keys. */
const lacking: Readonly<Record<string, (connection: string) => readonly [message: string, keys: string]>> = {
  smb: name => [`nodes log in to the SMB share of connection "${name}" without user and password`, "key mount_flags"],
  objectivefs: name => [
    `nodes have no keys to the object store of connection "${name}"`,
    "keys env.ACCESS_KEY, env.SECRET_KEY, env.OBJECTIVEFS_LICENSE and env.OBJECTIVEFS_PASSPHRASE",
  ],
};

function* login(each: ClassObject, members: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const share = members.find(member => (factsOf(member)?.protocol ?? "") in lacking);
  const [message, keys] = lacking[(share && factsOf(share)?.protocol) ?? ""]?.(share?.name ?? "") ?? [];
  const secret = textAt(each.value, "parameters", "csi.storage.k8s.io/node-stage-secret-name");
  // The chart has a field of its own for secrets and makes the parameters from it.
  if (
    message === undefined ||
    secret !== undefined ||
    (each.ours && at(each.value, "secrets", "node-stage-secret") !== undefined)
  )
    return;
  yield warning(
    "class-without-login",
    [...each.path, "parameters"],
    message,
    `add "csi.storage.k8s.io/node-stage-secret-name" and "-namespace" of a secret with the ${keys}`,
    "key",
  );
}

/** A parameter that drivers read, only not these. */
function* idle(
  kind: ClassObject["kind"],
  key: string,
  path: Path,
  members: readonly ConnectionFile[],
): Iterable<SchemaFinding> {
  const of = kind === "storage" ? "volume" : "snapshot";
  if (!driverParameters(of).includes(key)) return;
  const other = members.find(member => factsOf(member)?.parameters[of].includes(key) === false);
  if (!other) return;
  const message = `${other.driver} (connection "${other.name}") does not read this parameter`;
  yield warning("parameter-without-effect", path, message, "remove it", "key");
}

const withoutReader = (key: string, path: Path): SchemaFinding =>
  warning(
    "parameter-without-effect",
    path,
    `csimux does not read "${key}"`,
    'write properties as parameters of the class, such as "zfs.volblocksize", and those of one claim into a VolumeAttributesClass',
    "key",
  );

function unknown(kind: ClassObject["kind"], key: string, plain: string, path: Path): SchemaFinding {
  const near = nearest(plain, known[kind]);
  const message = `unknown parameter "${key}"`;
  if (near) return problem("unknown-parameter", path, message, meant(near), "key");
  return warning(
    "unknown-parameter",
    path,
    message,
    "only templates could use it, and no template of the connection does",
    "key",
  );
}

/** Templates in a connection may use any parameter. */
const usedInTemplate = (key: string, members: readonly ConnectionFile[]): boolean =>
  members.some(({ leaf }) => leaf.text.includes("{{") && leaf.text.includes(key));

function* fsType(each: ClassObject, members: readonly ConnectionFile[]): Iterable<SchemaFinding> {
  const keys = ["fsType", "csi.storage.k8s.io/fstype"].filter(
    key => textAt(each.value, "parameters", key) !== undefined,
  );
  const [key, second] = keys;
  if (key === undefined) return;
  const path = [...each.path, "parameters", second ?? key];
  if (second !== undefined) {
    yield problem(
      "fstype-given-twice",
      path,
      '"fsType" and "csi.storage.k8s.io/fstype" are two names of one parameter',
      "remove one of the two",
      "key",
    );
    return;
  }
  const wanted = textAt(each.value, "parameters", key) ?? "";
  for (const member of members) {
    const { driver, name } = member;
    const possible = filesystemsOf(member);
    if (wanted !== "" && factsOf(member)?.protocol === "hostpath") {
      const message = `volumes of connection "${name}" are folders that are there already, so "${wanted}" has no effect`;
      yield warning("parameter-without-effect", path, message, "remove it", "key");
      return;
    }
    if (wanted === "" || !possible || possible.includes(wanted)) continue;
    const message = `connection "${name}" (${driver}) cannot make "${wanted}"`;
    yield problem("fstype-impossible", path, message, `possible: ${possible.join(", ")}`);
    return;
  }
}

function* snapshotDriver(each: ClassObject): Iterable<SchemaFinding> {
  const path = [...each.path, "parameters", "driver"];
  const value = textAt(each.value, "parameters", "driver");
  if (value === undefined) return;
  const methods = ["filecopy", "restic", "kopia"];
  if (!methods.includes(value)) {
    const near = nearest(value, methods);
    yield problem("parameter-value", path, `must be one of ${methods.join(", ")}`, near && meant(near));
  }
}
