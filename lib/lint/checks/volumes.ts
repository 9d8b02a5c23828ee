import { parseHandle } from "../../core/handle.ts";
import { problem, type SchemaFinding } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import { type LintInput, mappingAt, textAt, type VolumeObject } from "../lint-input.ts";
import { headFault } from "../object-kinds.ts";
import { headFinding } from "../objects.ts";
import type { DocumentFinding } from "../source-document.ts";
import { ownProvisioners } from "./class-target.ts";

/** Rules about PersistentVolumes that lead to csimux: those that people write by hand. */
export function* volumes(world: LintInput): Iterable<DocumentFinding> {
  const own = ownProvisioners(world);
  for (const each of world.volumes) {
    const driver = textAt(each.value, "spec", "csi", "driver");
    const provisioner = textAt(each.value, "spec", "csi", "volumeAttributes", "provisioner_driver");
    if ((driver === undefined || !own.has(driver)) && provisioner === undefined) continue;
    for (const finding of findings(each, provisioner, world)) yield { leaf: each.leaf, finding };
  }
}

function* findings(each: VolumeObject, provisioner: string | undefined, world: LintInput): Iterable<SchemaFinding> {
  const fault = headFault(each.value);
  if (fault) yield headFinding(fault, each.path);
  if (textAt(each.value, "spec", "csi", "driver") === undefined)
    yield problem(
      "volume-driver",
      [...each.path, "spec", "csi", "driver"],
      'the volume needs "driver"',
      "add the name of the driver",
      "key",
    );
  const attributes = mappingAt(each.value, "spec", "csi", "volumeAttributes");
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value !== "string")
      yield problem(
        "parameter-not-text",
        [...each.path, "spec", "csi", "volumeAttributes", key],
        "Kubernetes accepts only text here",
        "put the value in quotes",
      );
  }
  const byHand = world.modules.some(
    ({ names, facts }) => provisioner !== undefined && names.includes(provisioner) && !facts.provisions,
  );
  if (byHand) yield* protocol(each);
  else yield* handle(each, world);
}

/** Volumes that only nodes know need to say how they are attached. */
function* protocol(each: VolumeObject): Iterable<SchemaFinding> {
  if (textAt(each.value, "spec", "csi", "volumeAttributes", "node_attach_driver") !== undefined) return;
  yield problem(
    "volume-attributes",
    [...each.path, "spec", "csi", "volumeAttributes"],
    'the volume does not say how nodes attach it: "node_attach_driver" is missing',
    'add it, for example "node_attach_driver: nfs", with the keys of that protocol',
    "key",
  );
}

function* handle(each: VolumeObject, { main, connections, sealed }: LintInput): Iterable<SchemaFinding> {
  const path = [...each.path, "spec", "csi", "volumeHandle"];
  const text = textAt(each.value, "spec", "csi", "volumeHandle");
  const names = [...connections.map(({ name }) => name), ...sealed];
  if (text === undefined) {
    yield problem("volume-handle", path, 'the volume needs "volumeHandle"', "write v:<connection>/<id>", "key");
    return;
  }
  const parsed = parseHandle(text, "volume");
  if (!parsed) {
    // Ids without prefix are those of a deployment that was taken over.
    if (main?.read.partial?.legacyConnection !== undefined && !/^[vs]:/.test(text)) return;
    const first = text.slice(0, Math.max(text.indexOf("/"), 0));
    const fix = names.includes(first)
      ? meant(`v:${text}`)
      : "write v:<connection>/<id>, or set proxy.legacyConnection for ids without prefix";
    yield problem("volume-handle", path, `"${text}" is no volume handle of csimux`, fix);
    return;
  }
  if (names.length === 0 || names.includes(parsed.connection)) return;
  const near = nearest(parsed.connection, names);
  const message = `there is no connection "${parsed.connection}", so the volume can be neither grown nor deleted`;
  yield problem(
    "volume-handle",
    path,
    message,
    near ? meant(`v:${near}/${parsed.id}`) : `add a file ${parsed.connection}.yaml`,
  );
}
