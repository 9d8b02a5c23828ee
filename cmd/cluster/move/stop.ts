import { textAt } from "../../../lib/lint/lint-input.ts";
import { type Moving, readObjects } from "./cluster-objects.ts";
import { claimManifest } from "./objects/manifests.ts";
import type { StoppedWorkload } from "./objects/note.ts";
import { claimText, numberAt, placeOfObject, textsAt } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { holders } from "./staged.ts";
import { type Users, usersOf, type Workload, workloadText } from "./users.ts";
import { type MoveWork, noted, stateOf, writeNote } from "./work.ts";

/** How long pods may take to end and to become ready, in milliseconds. */
const stopMs = 900_000;
const startMs = 900_000;

/** Notes the workloads and nodes that use a claim. Returns it with its new note. */
function noteStop(work: MoveWork, claim: Moving, users: Users): Promise<Moving> {
  const { note, old } = noted(claim);
  const nodes = users.pods.flatMap(pod => textAt(pod, "spec", "nodeName") ?? []);
  return writeNote(work, claim, {
    ...(note.step === "copy" && { step: "stop" }),
    workloads: joined(note.workloads, users.workloads),
    nodes: [...new Set([...note.nodes, ...nodes])].sort(),
    // The claim as it is at the stop: labels may have changed since the copy began.
    ...(claim.claim !== undefined &&
      stateOf(claim) === "old" && {
        claim: claimManifest(claim.claim, classNameOf(claim), placeOfObject(old).name),
      }),
  });
}

/**
 * Stops everything that uses these claims, and waits until it is proved that nothing holds their volumes. The number of pods is noted before
 * they are stopped. Returns the claims with their new notes. Throws MoveRefusal.
 */
export async function stop(work: MoveWork, claims: readonly Moving[]): Promise<readonly Moving[]> {
  const { kubectl } = work;
  const namespaces = [...new Set(claims.map(each => each.namespace))];
  const objects = await readObjects(kubectl, namespaces);
  const stopped: Moving[] = [];
  const running = new Map<string, Workload>();
  for (const claim of claims) {
    const users = usersOf(objects, claim);
    const [stranger] = users.strangers;
    if (stranger)
      throw new MoveRefusal(
        `${stranger.owner ?? `pod ${stranger.pod}`} uses claim ${claimText(claim)}, and csimux cannot stop it`,
      );
    for (const each of users.workloads)
      if (each.replicas > 0) running.set(`${each.namespace}/${workloadText(each)}`, each);
    stopped.push(await noteStop(work, claim, users));
  }
  for (const each of running.values())
    await kubectl.change([
      ...["scale", workloadText(each), "-n", each.namespace],
      ...["--replicas=0", `--current-replicas=${each.replicas}`],
    ]);
  const nodes = [...new Set(stopped.flatMap(each => noted(each).note.nodes))];
  await kubectl.wait(stopMs, async () => {
    const missing = await holders(kubectl, stopped, nodes);
    return missing === undefined ? "done" : { missing: missing.text };
  });
  return stopped;
}

const generationOf = async ({ kubectl }: MoveWork, { kind, name }: StoppedWorkload, namespace: string) =>
  numberAt(await kubectl.get(kind.toLowerCase(), name, namespace), "metadata", "generation");

/** Notes the versions of the stopped workloads before the last pass, so that `startedSince` knows whether pods have run after it. */
export async function noteStopped(work: MoveWork, claim: Moving): Promise<Moving> {
  const workloads: StoppedWorkload[] = [];
  for (const { generation: _, ...each } of noted(claim).note.workloads) {
    const generation = await generationOf(work, each, claim.namespace);
    workloads.push({ ...each, ...(generation !== undefined && { generation }) });
  }
  return writeNote(work, claim, { workloads });
}

/** A workload that was changed since `noteStopped`: its pods may have run and ended, of which nothing else is left. */
export async function startedSince(work: MoveWork, claim: Moving): Promise<string | undefined> {
  for (const each of noted(claim).note.workloads)
    if (each.generation !== undefined && each.generation !== (await generationOf(work, each, claim.namespace)))
      return workloadText(each);
  return undefined;
}

const classNameOf = ({ claim }: Moving): string => textsAt(claim, "spec")["storageClassName"] ?? "";

/** The workloads with their numbers of pods: the ones that run now, and the ones that an earlier command stopped. */
function joined(before: readonly StoppedWorkload[], now: readonly Workload[]): readonly StoppedWorkload[] {
  const all = new Map(before.map(each => [workloadText(each), each]));
  for (const { kind, name, replicas } of now)
    if (replicas > 0)
      all.set(workloadText({ kind, name }), { ...all.get(workloadText({ kind, name })), kind, name, replicas });
  return [...all.values()];
}

/** Starts what was stopped for these claims, and waits until its pods are ready. Returns what is missing after that time. */
export async function start(work: MoveWork, claims: readonly Moving[]): Promise<string | undefined> {
  const { kubectl } = work;
  const all = new Map(
    claims.flatMap(claim =>
      noted(claim).note.workloads.map(
        each => [`${claim.namespace}/${workloadText(each)}`, { ...each, namespace: claim.namespace }] as const,
      ),
    ),
  );
  for (const { kind, name, namespace, replicas } of all.values()) {
    const now = await kubectl.get(kind.toLowerCase(), name, namespace);
    if (now === undefined) {
      kubectl.say(`${kind} ${namespace}/${name} no longer exists, so it is not started`);
      continue;
    }
    // One that runs already was started by hand, or by an earlier command.
    if ((numberAt(now, "spec", "replicas") ?? 1) === 0)
      await kubectl.change(["scale", workloadText({ kind, name }), "-n", namespace, `--replicas=${replicas}`]);
  }
  try {
    await kubectl.wait(startMs, async () => {
      for (const { kind, name, namespace } of all.values()) {
        const now = await kubectl.get(kind.toLowerCase(), name, namespace);
        const wanted = numberAt(now, "spec", "replicas") ?? 1;
        const ready = numberAt(now, "status", "readyReplicas") ?? 0;
        if (now !== undefined && ready < wanted)
          return { missing: `${kind} ${namespace}/${name} has ${ready} of ${wanted} pods ready` };
      }
      return "done";
    });
  } catch (error) {
    if (!(error instanceof MoveRefusal)) throw error;
    return error.message;
  }
  return undefined;
}
