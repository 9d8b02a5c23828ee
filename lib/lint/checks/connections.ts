import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { bothKinds, factsOf } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, listAt, mappingAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { snapshotMethod } from "./snapshot-methods.ts";

/** Rules about names and common keys of connections. */
export function* connections({ connections: all, main }: LintInput): Iterable<DocumentFinding> {
  const single = main?.read.config?.single;
  for (const connection of all) {
    for (const finding of alone(connection, connection.name === single)) yield { leaf: connection.leaf, finding };
  }
  yield* sameName(all);
  yield* sameInstance(all);
  yield* mixedDeployments(all);
}

/** `single`: it is the main file itself, which nodes read. */
function* alone(connection: ConnectionFile, single: boolean): Iterable<SchemaFinding> {
  const { name, read } = connection;
  const raw = connection.leaf.source.value;
  if (factsOf(connection)?.snapshotsNameVolume && name.length > longestForSnapshots) {
    yield warning(
      "long-connection-name",
      [],
      `the name has ${name.length} characters: snapshot ids would pass 128 bytes and are shortened with a hash`,
      `use at most ${longestForSnapshots} characters`,
    );
  }
  if (!single) yield* nodeBlock(raw);
  if (at(raw, "service") !== undefined) {
    yield warning(
      "ignored-key",
      ["service"],
      '"service" has no effect: csimux announces what its drivers can do',
      "remove it",
      "key",
    );
  }
  for (const section of Object.keys(read.tidied)) {
    yield* portals(read.tidied, section);
    yield* snapshotMethod(read.tidied, section);
  }
}

/** Of a connection file's `node:` block the mount flags alone are read (NodeSettings.mountFlags). */
function* nodeBlock(raw: unknown): Iterable<SchemaFinding> {
  const inside = (key: string, path: readonly string[]): readonly (readonly string[])[] =>
    Object.keys(mappingAt(raw, ...path))
      .filter(each => each !== key)
      .map(each => [...path, each]);
  for (const path of [...inside("mount", ["node"]), ...inside("mount_flags", ["node", "mount"])])
    yield warning(
      "node-block-in-connection",
      path,
      'this has no effect: of "node" in a connection file only mount.mount_flags counts',
      "move it into the main file",
      "key",
    );
}

/** `v:` or `s:`, the name, `/`, and 86 bytes of `pvc-<uuid>@snapshot-<uuid>` in 128. */
const longestForSnapshots = 128 - 3 - 86;

function* portals(tidied: unknown, section: string): Iterable<SchemaFinding> {
  for (const key of ["targetPortals", "transports"]) {
    const seen = new Set<string>();
    for (const [index, portal] of listAt(tidied, section, key).entries()) {
      const text = String(portal)
        .toLowerCase()
        .replace(/:3260$/, "");
      if (seen.has(text))
        yield warning(
          "duplicate-portal",
          [section, key, index],
          `"${String(portal)}" stands in this list already`,
          "remove it",
        );
      seen.add(text);
    }
  }
}

function* sameName(all: readonly ConnectionFile[]): Iterable<DocumentFinding> {
  const byName = new Map<string, ConnectionFile>();
  for (const connection of all) {
    const { leaf, name } = connection;
    const before = byName.get(name);
    byName.set(name, before ?? connection);
    if (!before) continue;
    const message = `connection "${name}" is defined twice; the other one is ${before.leaf.inside || before.leaf.file}`;
    yield { leaf, finding: problem("duplicate-connection", [], message, "rename or remove one of the two") };
  }
}

function* sameInstance(all: readonly ConnectionFile[]): Iterable<DocumentFinding> {
  const byId = new Map<string, string>();
  for (const { leaf, name, read } of all) {
    const id = textAt(read.tidied, "instance_id");
    if (id === undefined || id === "") continue;
    const before = byId.get(id);
    byId.set(id, before ?? name);
    if (before === undefined || before === name) continue;
    const message = `connection "${before}" has the same instance_id, so parameters meant for one reach both`;
    yield {
      leaf,
      finding: warning("duplicate-instance-id", ["instance_id"], message, "give each its own, or remove both"),
    };
  }
}

/** Local drivers need a controller on every node, the others one for all. */
function* mixedDeployments(all: readonly ConnectionFile[]): Iterable<DocumentFinding> {
  const { local, remote } = bothKinds(all);
  if (!remote || !local) return;
  const message = `${local.driver} needs a controller on every node, ${remote.driver} (connection "${remote.name}") one for all`;
  yield {
    leaf: local.leaf,
    finding: warning("mixed-deployment", ["driver"], message, "deploy csimux twice, under two names"),
  };
}

/** Labels of a connection as text. */
export const labelsOf = ({ read }: ConnectionFile): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(mappingAt(read.tidied, "proxy", "perDriver", "labels")).map(([key, value]) => [key, String(value)]),
  );
