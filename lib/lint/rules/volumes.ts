import { parseHandle } from "../../core/handle.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { ownProvisioners } from "../class-target.ts";
import { type LintInput, type ManifestObject, textAt } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme } from "../rule.ts";
import { namesOf } from "./connections.ts";

const rule = rulesById({
  "volume-handle": error(
    "PersistentVolumes have handles of csimux",
    "A volume with another handle cannot be expanded or deleted, because csimux treats it as a volume of another driver.",
  ),
  "volume-attributes": error(
    "Manually described volumes say how they are attached",
    "Nodes have no other source for it.",
  ),
});

/** Rules about PersistentVolumes of csimux, which people write by hand. */
export const volumes: Theme = {
  rules: Object.values(rule),
  *check(input) {
    const own = ownProvisioners(input);
    for (const each of input.volumes) {
      const driver = textAt(each.value, "spec", "csi", "driver");
      const provisioner = textAt(each.value, "spec", "csi", "volumeAttributes", "provisioner_driver");
      if ((driver === undefined || !own.has(driver)) && provisioner === undefined) continue;
      const byHand = input.modules.some(
        ({ names, facts }) => provisioner !== undefined && names.includes(provisioner) && !facts.provisions,
      );
      if (!byHand) yield* handle(each, input);
      else if (textAt(each.value, "spec", "csi", "volumeAttributes", "node_attach_driver") === undefined) {
        const path = [...each.path, "spec", "csi", "volumeAttributes"];
        const message = 'nodes cannot attach the volume: "node_attach_driver" is missing';
        const fix = 'add it, for example "node_attach_driver: nfs", with the keys of that protocol';
        yield report(each.document, rule["volume-attributes"], path, message, fix, "key");
      }
    }
  },
};

function* handle(each: ManifestObject, input: LintInput): Found {
  const path = [...each.path, "spec", "csi", "volumeHandle"];
  const text = textAt(each.value, "spec", "csi", "volumeHandle");
  if (text === undefined) return;
  const names = namesOf(input);
  const parsed = parseHandle(text, "volume");
  if (!parsed) {
    // Ids without prefix belong to the deployment that was taken over.
    if (input.main?.read.partial?.legacyConnection !== undefined && !/^[vs]:/.test(text)) return;
    const fix = names.includes(text.slice(0, Math.max(text.indexOf("/"), 0)))
      ? meant(`v:${text}`)
      : "write v:<connection>/<id>, or set proxy.legacyConnection for ids without prefix";
    yield report(each.document, rule["volume-handle"], path, `"${text}" is not a volume handle of csimux`, fix);
    return;
  }
  const { connection, id } = parsed;
  if (names.length === 0 || names.includes(connection)) return;
  const near = nearest(connection, names);
  const message = `there is no connection "${connection}", so the volume can be neither expanded nor deleted`;
  const fix = near ? meant(`v:${near}/${id}`) : `add a file ${connection}.yaml`;
  yield report(each.document, rule["volume-handle"], path, message, fix);
}
