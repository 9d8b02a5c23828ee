import { messageOf } from "../../../lib/core/errors.ts";
import { parseHandle } from "../../../lib/core/handle.ts";
import { isMapping, type Mapping } from "../../../lib/core/mapping.ts";
import { isNodeName } from "../../../lib/core/name.ts";
import { listAt, mappingAt, textAt } from "../../../lib/lint/lint-input.ts";
import type { Status } from "../../../lib/observe/status.ts";
import type { Host } from "../../host.ts";
import { memberText, problemsOf } from "../../status/problems.ts";
import { UsageError, visible } from "../../terminal/terminal.ts";
import { type Cluster, type CsimuxPod, waitingIn } from "../cluster.ts";
import { Findings } from "./findings.ts";

/** What kubectl returns, or in words why it cannot be read: a user may not have every right. */
type Look = (kind: string, name?: string, ...flags: readonly string[]) => Promise<Mapping>;

/**
 * `kubectl csimux explain`: follows a claim to its PersistentVolume, connection, storage system and node. Returns the exit code. Throws if
 * the claim itself cannot be read.
 */
export async function explain(name: string, given: string | undefined, cluster: Cluster, host: Host): Promise<number> {
  const [claim = "", namespace = given ?? (await cluster.contextNamespace())] = name.split("/").reverse();
  if (!/^[a-z0-9.-]+$/.test(claim) || !/^[a-z0-9-]+$/.test(namespace))
    throw new UsageError(`the claim is <namespace>/<name>, not "${visible(name)}"`);
  const pvc = await cluster.read("pvc", claim, "-n", namespace);
  const findings = new Findings();
  const look: Look = async (kind, name, ...flags) => {
    // Others write these names, and a flag of kubectl is none.
    if (name !== undefined && !isNodeName(name)) {
      findings.add("(unknown)", name, `this cannot be the name of a ${kind}`);
      return {};
    }
    try {
      return await cluster.read(kind, ...(name === undefined ? [] : [name]), ...flags);
    } catch (error) {
      const [text = ""] = messageOf(error).split("\n");
      if (!/NotFound/.test(text)) findings.add("(unknown)", text);
      return {};
    }
  };
  const csimux = await pods(cluster, findings);
  const status = csimux && (await statusOf(cluster, csimux, findings));
  const users = await podsOf(claim, namespace, look);
  const phase = textAt(pvc, "status", "phase") ?? "unknown";
  const events = await warnings("PersistentVolumeClaim", claim, namespace, look);
  const volume = textAt(pvc, "spec", "volumeName");
  const lost =
    phase === "Lost"
      ? "its PersistentVolume is gone; the storage may still exist: see kubectl csimux volumes"
      : undefined;
  findings.add(
    "claim",
    `${namespace}/${claim} is ${phase}${volume === undefined ? "" : `, with the PersistentVolume ${volume}`}`,
    lost,
  );
  const parts = { cluster, csimux, status, users, namespace, look, findings };
  if (phase === "Pending") await pending(pvc, events, parts);
  else if (volume !== undefined) await bound(volume, parts);
  host.out(findings.text());
  return findings.wrong.length > 0 ? 1 : 0;
}

/** Finds the pods of csimux; adds what is wrong with the controllers. */
async function pods(cluster: Cluster, findings: Findings): Promise<readonly CsimuxPod[]> {
  const all = await cluster.pods();
  const controllers = all.filter(each => each.isController);
  const ready = controllers.filter(each => each.isReady);
  const waiting = controllers.flatMap(each => each.waiting.map(text => `pod ${each.name}: ${text}`));
  const none =
    all.length === 0
      ? cluster.nonePods
      : ready.length === 0
        ? "no controller pod is ready, so no volume is created or deleted"
        : undefined;
  findings.add(
    "csimux",
    `${ready.length} of ${controllers.length} controller pods ready, ${all.length - controllers.length} other pods`,
    none,
    ...waiting,
  );
  return all;
}

/** The status of a controller. */
async function statusOf(cluster: Cluster, all: readonly CsimuxPod[], findings: Findings): Promise<Status | undefined> {
  const pod = all.find(each => each.isController);
  return pod && askPod(cluster, pod, findings);
}

async function askPod(cluster: Cluster, pod: CsimuxPod, findings: Findings): Promise<Status | undefined> {
  const { stdout, stderr } = await cluster.exec(pod, ["status", "-o", "json"]);
  try {
    return JSON.parse(stdout) as Status;
  } catch {
    findings.add("(unknown)", `csimux status in pod ${pod.name}: ${stderr.trim() || "no answer"}`);
    return undefined;
  }
}

/** The messages of the warnings about an object, the last one first. */
async function warnings(kind: string, name: string, namespace: string, look: Look): Promise<readonly string[]> {
  const selector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  const events = listAt(await look("events", undefined, "-n", namespace, "--field-selector", selector), "items");
  const time = (event: unknown) => textAt(event, "lastTimestamp") ?? textAt(event, "eventTime") ?? "";
  return events
    .filter(event => textAt(event, "type") === "Warning")
    .sort((a, b) => (time(a) < time(b) ? 1 : -1))
    .map(event => `${textAt(event, "reason")}: ${textAt(event, "message")}`);
}

/** The pods that use a claim. */
async function podsOf(claim: string, namespace: string, look: Look): Promise<readonly Mapping[]> {
  const all = listAt(await look("pods", undefined, "-n", namespace), "items").filter(isMapping);
  return all.filter(pod =>
    listAt(pod, "spec", "volumes").some(
      each =>
        textAt(each, "persistentVolumeClaim", "claimName") === claim ||
        (isMapping(each) &&
          isMapping(each["ephemeral"]) &&
          `${textAt(pod, "metadata", "name")}-${textAt(each, "name")}` === claim),
    ),
  );
}

const unscheduled = (pod: Mapping): string | undefined => {
  const found = listAt(pod, "status", "conditions").find(each => textAt(each, "type") === "PodScheduled");
  return textAt(found, "status") === "False"
    ? `pod ${textAt(pod, "metadata", "name")}: ${textAt(found, "message")}`
    : undefined;
};

/** What is known about a claim and its pods. */
interface ClaimParts {
  readonly cluster: Cluster;
  readonly csimux: readonly CsimuxPod[];
  readonly status: Status | undefined;
  readonly users: readonly Mapping[];
  readonly namespace: string;
  readonly look: Look;
  readonly findings: Findings;
}

/** Why a claim has no volume: class, connection, topology, or the last error of the provisioner. */
async function pending(pvc: Mapping, events: readonly string[], parts: ClaimParts): Promise<void> {
  const { users, status, look, findings } = parts;
  const name = textAt(pvc, "spec", "storageClassName");
  if (name === undefined)
    return findings.add("class", "none", "the claim names no class, and the cluster had no default class");
  const found = await look("storageclass", name);
  const provisioner = textAt(found, "provisioner");
  if (provisioner === undefined)
    return findings.add("class", name, `the class ${name} does not exist, or you may not read it`);
  const names = [status?.name, ...(status?.aliases ?? []).map(each => each.name)].filter(each => each !== undefined);
  const other =
    names.length > 0 && !names.includes(provisioner)
      ? `the class is of the driver ${provisioner}, and csimux serves ${names.join(", ")}`
      : undefined;
  findings.add("class", `${name} of ${provisioner}`, other);
  const connection = textAt(found, "parameters", "connection");
  if (status && connection !== undefined && !other) connectionStation(connection, status, true, findings);
  const waits = textAt(found, "volumeBindingMode") === "WaitForFirstConsumer";
  if (waits && users.length === 0)
    findings.add(
      "pod",
      "none uses the claim",
      "the class waits for the first pod (WaitForFirstConsumer): start one, and the volume is created",
    );
  const [event] = events;
  findings.add("provisioner", event === undefined ? "reports nothing" : "reports", event, ...users.map(unscheduled));
}

/** A connection or group, and why it cannot be used; `creates`: for a new volume. */
function connectionStation(name: string, status: Status, creates: boolean, findings: Findings): void {
  const group = status.groups.find(each => each.name === name);
  const found = status.connections.find(each => each.name === name);
  if (group)
    findings.add("group", `${name}: ${group.members.map(each => memberText(each, status.connections)).join(", ")}`);
  else if (found) {
    const suspended = creates && found.suspended ? "it is suspended, so it gets no new volumes" : undefined;
    findings.add(
      "connection",
      `${name} (${found.driver ?? "unknown driver"}): ${found.state}`,
      // A storage system that has not been checked yet may well be good.
      ...(found.storage?.state === "not-checked" ? [] : problemsOf(found, status.now)).map(({ text, remedy }) =>
        remedy === undefined ? text : `${text}; ${remedy}`,
      ),
      suspended,
    );
  } else
    findings.add("connection", name, `csimux has no connection or group "${name}": add its file, or correct the class`);
}

/** From a PersistentVolume to its storage, and to the pods that use it. */
async function bound(volume: string, parts: ClaimParts): Promise<void> {
  const { cluster, csimux, status, users, look, findings } = parts;
  const pv = await look("pv", volume);
  const handle = textAt(pv, "spec", "csi", "volumeHandle");
  const driver = textAt(pv, "spec", "csi", "driver") ?? "no CSI driver";
  if (handle === undefined)
    return findings.add(
      "volume",
      volume,
      "the PersistentVolume does not exist, is of no CSI driver, or you may not read it",
    );
  findings.add("volume", `${handle} of ${driver}, ${textAt(pv, "status", "phase")?.toLowerCase() ?? "unknown"}`);
  const alias = status?.aliases?.find(each => each.name === driver);
  const parsed = parseHandle(handle, "volume") ?? (alias && { connection: alias.connection, id: handle });
  if (status && status.name !== driver && !alias)
    findings.add("driver", driver, `csimux serves ${status.name}, not this driver`);
  else if (parsed && status) {
    connectionStation(parsed.connection, status, false, findings);
    const controller = csimux.find(each => each.isController && each.isReady);
    if (controller) await storage(parsed.connection, parsed.id, controller, cluster, findings);
  }
  if (users.length === 0) findings.add("pod", "none uses the claim");
  for (const pod of users) await user(pod, volume, driver, parsed?.connection, parts);
}

/** Reads the volume on its storage system, and changes nothing there. */
async function storage(
  connection: string,
  id: string,
  pod: CsimuxPod,
  cluster: Cluster,
  findings: Findings,
): Promise<void> {
  const { exitCode, stderr } = await cluster.exec(pod, ["volumes", "adopt", "--", connection, id]);
  const why = stderr
    .replace(/^command terminated.*$/m, "")
    .replace(/^csimux: /, "")
    .trim();
  if (exitCode === 0) findings.add("storage", "the volume exists");
  else findings.add("storage", `${id} on ${connection}`, why || "the volume cannot be read");
}

/** Where the volume is attached, while a pod on `node` waits for it. */
async function attachments(volume: string, node: string, { look, findings }: ClaimParts): Promise<void> {
  const all = listAt(await look("volumeattachments"), "items").filter(
    each => textAt(each, "spec", "source", "persistentVolumeName") === volume,
  );
  for (const each of all) {
    const at = textAt(each, "spec", "nodeName") ?? "";
    const isAttached = mappingAt(each, "status")["attached"] === true;
    const error = textAt(each, "status", "attachError", "message") ?? textAt(each, "status", "detachError", "message");
    const elsewhere = at === node ? undefined : `it is still attached to ${at}; its pod there must end first`;
    findings.add("attachment", `${isAttached ? "attached" : "not attached"} to ${at}`, error, elsewhere);
  }
}

/** Whether csimux on a node can be used, and what it says about the connection. */
async function csimuxOn(
  node: string,
  driver: string,
  connection: string | undefined,
  { cluster, csimux, look, findings }: ClaimParts,
): Promise<void> {
  const own =
    csimux.find(each => each.node === node && each.container && !each.isController) ??
    csimux.find(each => each.node === node);
  const registered = listAt(await look("csinode", node), "spec", "drivers").map(each => textAt(each, "name"));
  const unknown = registered.includes(driver)
    ? undefined
    : `the node does not know the driver ${driver}: csimux has not registered there`;
  const absent =
    own === undefined
      ? `no pod of csimux runs on ${node}`
      : own.isReady
        ? undefined
        : `the pod ${own.name} is not ready`;
  findings.add("node", node, absent, ...(own?.waiting ?? []), unknown);
  const status = own && (await askPod(cluster, own, findings));
  const found = status?.connections.find(each => each.name === connection);
  if (status && found)
    findings.add("node", "csimux there answers", ...problemsOf(found, status.now).map(({ text }) => text));
}

/** A pod that uses the volume: its node, the attachment, csimux there, and what kubelet reports. */
async function user(
  pod: Mapping,
  volume: string,
  driver: string,
  connection: string | undefined,
  parts: ClaimParts,
): Promise<void> {
  const { namespace, look, findings } = parts;
  const name = textAt(pod, "metadata", "name") ?? "";
  const phase = textAt(pod, "status", "phase");
  const node = textAt(pod, "spec", "nodeName");
  const isReady = listAt(pod, "status", "conditions").some(
    each => textAt(each, "type") === "Ready" && textAt(each, "status") === "True",
  );
  findings.add("pod", `${name} is ${phase}${node === undefined ? "" : ` on ${node}`}`, unscheduled(pod));
  if (node === undefined || (phase === "Running" && isReady)) return;
  await attachments(volume, node, parts);
  await csimuxOn(node, driver, connection, parts);
  const events = await warnings("Pod", name, namespace, look);
  findings.add("kubelet", events.length === 0 ? "reports nothing" : "reports", events[0], ...waitingIn(pod));
}
