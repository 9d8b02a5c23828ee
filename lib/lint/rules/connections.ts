import type { Path } from "../../schema/finding.ts";
import { bothKinds } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, listAt, mappingAt, textAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";
import { readingRules } from "./reading.ts";

const rule = rulesById({
  "duplicate-connection": error(
    "Connection names are unique",
    "c1.yaml and c1.yml both claim the name; csimux refuses to choose.",
  ),
  "duplicate-instance-id": warning(
    "instance_id is unique",
    "Parameters of the form democratic-csi.org/<instance_id>/key apply to every connection with that id.",
  ),
  "snapshot-method-without-settings": warning(
    "Snapshots in a repository name the repository",
    "restic and kopia keep snapshots outside the storage system, in the repository of `snapshots.restic` or `snapshots.kopia`. Without it, every snapshot is refused.",
  ),
  "node-block-in-connection": warning(
    "Node settings are in the main file",
    "csimux reads only `mount.mount_flags` from the `node:` block of a connection file. Nodes take all other settings from the main file.",
  ),
  "newer-truenas": warning(
    "The file works on newer versions of TrueNAS",
    "TrueNAS 27 may not let an API key log in without its `username`. From 25.04 on an NFS share has at most 42 hosts and 42 networks, and from 26 on the API encrypts with AES-256-GCM alone.",
  ),
  "mixed-deployment": warning(
    "Local and remote drivers are deployed separately",
    "Local drivers need a controller on every node, other drivers one for all nodes; one deployment cannot be both.",
  ),
});

/** Rules about names and common keys of connections. */
export const connections: Theme = {
  rules: Object.values(rule),
  *check({ connections: all, main }) {
    const single = main?.read.config?.single;
    for (const connection of all) {
      // Nodes read the main file of a single driver.
      if (connection.name !== single) yield* nodeBlock(connection);
      yield* keys(connection);
      yield* newerTrueNas(connection);
    }
    yield* duplicates(all);
    yield* mixed(all);
  },
};

function* nodeBlock({ document }: ConnectionFile): Found {
  const others = (key: string, path: readonly string[]): readonly (readonly string[])[] =>
    Object.keys(mappingAt(document.source.value, ...path))
      .filter(each => each !== key)
      .map(each => [...path, each]);
  const message = 'this has no effect: csimux reads only mount.mount_flags from "node" in a connection file';
  for (const path of [...others("mount", ["node"]), ...others("mount_flags", ["node", "mount"])])
    yield report(document, rule["node-block-in-connection"], path, message, "move it into the main file", "key");
}

function* keys({ document, read: { normalized } }: ConnectionFile): Found {
  if (at(document.source.value, "service") !== undefined) {
    const message = '"service" has no effect: csimux announces the capabilities of its drivers';
    yield report(document, readingRules["ignored-key"], ["service"], message, "remove it", "key");
  }
  for (const section of Object.keys(normalized)) {
    const path = [section, "snapshots", "default_driver"];
    const method = textAt(normalized, ...path) ?? "";
    if (!["restic", "kopia"].includes(method) || at(normalized, section, "snapshots", method) !== undefined) continue;
    const message = `without settings for ${method}, every snapshot is refused`;
    yield report(document, rule["snapshot-method-without-settings"], path, message, `add snapshots.${method}`);
  }
}

/** The most entries of each list of an NFS share (middleware PR 15442 for 25.04). */
const mostClients = 42;

function* newerTrueNas({ document, read: { normalized } }: ConnectionFile): Found {
  const driver = textAt(normalized, "driver") ?? "";
  if (!/^(?:free|true)nas-/.test(driver)) return;
  const found = (path: Path, message: string, fix: string) =>
    report(document, rule["newer-truenas"], path, message, fix, "key");
  const [key, user] = ["apiKey", "username"].map(name => textAt(normalized, "httpConnection", name));
  if (key !== undefined && user === undefined)
    yield found(["httpConnection", "apiKey"], 'the key is given without "username"', "add the user that it belongs to");
  for (const name of ["shareAllowedHosts", "shareAllowedNetworks"])
    if (listAt(normalized, "nfs", name).length > mostClients)
      yield found(["nfs", name], `more than ${mostClients} entries`, "name networks instead of single hosts");
  const encryption = ["zfs", "datasetProperties", "encryption"] as const;
  if (driver.includes("-api-") && /^aes-(?!256-gcm)/i.test(textAt(normalized, ...encryption) ?? ""))
    yield found(encryption, "from TrueNAS 26 on the API takes only on, off and aes-256-gcm", 'write "on"');
}

function* duplicates(all: readonly ConnectionFile[]): Found {
  const byName = new Map<string, ConnectionFile>();
  const byId = new Map<string, string>();
  for (const connection of all) {
    const { document, name, read } = connection;
    const namesake = byName.get(name);
    byName.set(name, namesake ?? connection);
    if (namesake) {
      const message = `connection "${name}" is defined twice, also in ${namesake.document.inside || namesake.document.file}`;
      yield report(document, rule["duplicate-connection"], [], message, "rename or remove one of the two");
    }
    const id = textAt(read.normalized, "instance_id") ?? "";
    const other = id === "" ? name : (byId.get(id) ?? name);
    if (id !== "") byId.set(id, other);
    if (other === name) continue;
    const message = `connection "${other}" has the same instance_id, so parameters for one apply to both`;
    const path = ["instance_id"];
    yield report(document, rule["duplicate-instance-id"], path, message, "use different ones, or remove both");
  }
}

function* mixed(all: readonly ConnectionFile[]): Found {
  const { local, remote } = bothKinds(all);
  if (!remote || !local) return;
  const message = `${local.driver} needs a controller on every node, ${remote.driver} (connection "${remote.name}") one for all nodes`;
  yield report(local.document, rule["mixed-deployment"], ["driver"], message, "deploy csimux twice, under two names");
}

/** The labels of a connection, as text. */
export const labelsOf = ({ read }: ConnectionFile): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(mappingAt(read.normalized, "proxy", "perDriver", "labels")).map(([key, value]) => [
      key,
      textOf(value),
    ]),
  );

/** The names of all connections, including those with encrypted files. */
export const namesOf = ({ connections: all, sealed }: Pick<LintInput, "connections" | "sealed">): readonly string[] => [
  ...all.map(({ name }) => name),
  ...sealed,
];
