import { methodsBetween, type Obstacle } from "../../copies/methods.ts";
import { selects } from "../../core/proxy.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { copyEndOf, copySettingsOf } from "../copy-ends.ts";
import { factsOf } from "../facts.ts";
import type { ConnectionFile, LintInput } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";
import { labelsOf, namesOf } from "./connections.ts";

const rule = rulesById({
  "copy-connection-missing": error(
    "Connections named for copies exist",
    "`copies.from` or `copies.to` names a connection without a file, so a copy that was meant to be allowed is refused.",
  ),
  "copy-selector-empty": warning(
    "Selectors for copies select a connection",
    "`copies.from` or `copies.to` selects no connection, so every copy is refused.",
  ),
  "copy-method-missing": warning(
    "Connections named for copies can exchange content",
    "`copies.from` or `copies.to` names a connection, but there is no method between the two: the kind of storage or the other file forbids it. `csimux validate` prints the methods between all connections.",
  ),
  "copy-login-unused": warning(
    "Logins for copies are used",
    "`copies.sshConnection` has an effect only on drivers that do everything else over the API of TrueNAS. Every other driver copies with the login that it has.",
  ),
});

/** Rules about which connections exchange content. */
export const copies: Theme = {
  rules: Object.values(rule),
  *check(input) {
    const names = namesOf(input);
    for (const connection of input.connections) {
      for (const side of ["from", "to"] as const) {
        yield* problems(connection, side, names, input);
        yield* withoutWay(connection, side, input);
      }
      yield* login(connection);
    }
  },
};

function* problems(connection: ConnectionFile, side: "from" | "to", names: readonly string[], input: LintInput): Found {
  const set = connection.read.config?.copies[side];
  if (!set) return;
  const { document } = connection;
  if (set.kind === "members") {
    for (const [index, name] of set.members.entries()) {
      if (names.includes(name)) continue;
      const near = nearest(name, names);
      const fix = near ? meant(near) : `add a file ${name}.yaml, or remove the name`;
      const message = `there is no connection "${name}"`;
      yield report(document, rule["copy-connection-missing"], ["copies", side, "members", index], message, fix);
    }
    return;
  }
  // Labels in encrypted files are unknown.
  if (input.sealed.length > 0 || input.connections.some(each => selects(set.selector, labelsOf(each)))) return;
  const message = "no connection has such labels";
  const fix = 'correct the condition, or set "proxy.perDriver.labels" in the connection files';
  yield report(document, rule["copy-selector-empty"], ["copies", side, "selector"], message, fix);
}

function* withoutWay(connection: ConnectionFile, side: "from" | "to", input: LintInput): Found {
  const set = connection.read.config?.copies[side];
  const own = set?.kind === "members" ? copyEndOf(connection) : undefined;
  const settings = copySettingsOf(input);
  if (set?.kind !== "members" || !own || !settings.enabled) return;
  for (const [index, name] of set.members.entries()) {
    const named = input.connections.find(each => each.name === name);
    const other = named && named !== connection ? copyEndOf(named) : undefined;
    if (!named || !other) continue;
    const choice = methodsBetween(
      ...(side === "to" ? ([own, other] as const) : ([other, own] as const)),
      "snapshot",
      settings,
    );
    if (choice.kind === "methods") continue;
    const fix = otherFix(choice.because, side === "to" ? [connection, named] : [named, connection]);
    const path = ["copies", side, "members", index];
    yield report(connection.document, rule["copy-method-missing"], path, choice.why, fix);
  }
}

/** What would make a method available. */
function otherFix(because: Obstacle, [from, to]: readonly [ConnectionFile, ConnectionFile]): string {
  const needs = (connection: ConnectionFile) =>
    factsOf(connection)?.copySsh ? `set "copies.sshConnection" in the file of "${connection.name}", or ` : "";
  if (because === "not-a-source") return `${needs(from)}remove the name`;
  if (because === "not-a-target") return `${needs(to)}remove the name`;
  if (because === "source-forbids") return `add it to "copies.to" of "${from.name}", or remove the name`;
  if (because === "target-forbids") return `add it to "copies.from" of "${to.name}", or remove the name`;
  return "remove the name";
}

function* login(connection: ConnectionFile): Found {
  const { document, read } = connection;
  const facts = factsOf(connection);
  if (!facts || facts.copySsh || read.config?.copySsh === undefined) return;
  const message = `"${read.config.driver}" does not use this login`;
  yield report(document, rule["copy-login-unused"], ["copies", "sshConnection"], message, "remove it", "key");
}
