import { size } from "../../../lib/core/amounts.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import { table } from "../../terminal/table.ts";
import { visible } from "../../terminal/terminal.ts";
import type { Moving } from "./cluster-objects.ts";
import { attributesOf, targetClass, wantedCopy } from "./copy.ts";
import { claimText, mappingsAt, placeOfObject } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { refusalsOf } from "./refusals.ts";
import { usersOf, workloadText } from "./users.ts";
import { forEachClaim, type MoveWork } from "./work.ts";

/** `csimux move plan`: what would be moved and how. Throws MoveRefusal with every reason against it. */
export async function plan(work: MoveWork, out: (text: string) => void): Promise<number> {
  const { options, objects, claims, kubectl, controller } = work;
  const { toClass = "" } = options;
  const refusals = refusalsOf(objects, claims, toClass, options);
  if (refusals.length > 0) throw new MoveRefusal(...refusals);
  const target = targetClass(work, toClass);
  const rows = await forEachClaim(claims, async claim => {
    const wanted = wantedCopy(
      claim,
      claim.note?.volume ?? `moved-${textAt(claim.claim, "metadata", "uid")}-1`,
      target,
      await attributesOf(work, claim),
    );
    const { method, instead } = await controller.plan(wanted);
    const users = usersOf(objects, claim).workloads.map(each => `${workloadText(each)} (${each.replicas})`);
    const cells = [
      claimText(claim),
      claim.source,
      size(BigInt(wanted.bytes)),
      method ?? "-",
      users.join(", ") || "nothing",
    ];
    return { cells: cells.map(visible), instead: (instead ?? []).map(each => `${claimText(claim)}: ${each}`) };
  });
  out(table([["CLAIM", "VOLUME", "SIZE", "METHOD", "STOPS"], ...rows.map(({ cells }) => cells)]));
  for (const line of [...rows.flatMap(({ instead }) => instead), ...(await warnings(work))]) kubectl.say(line);
  kubectl.say(`nothing was changed; next: csimux move copy --to-class ${toClass}`);
  return 0;
}

/** What does not prevent a move. */
async function warnings({ kubectl, claims, objects, options }: MoveWork): Promise<readonly string[]> {
  const found = await Promise.all(claims.map(async claim => ({ claim, snapshots: await snapshotsOf(kubectl, claim) })));
  const target = objects.classes.find(each => placeOfObject(each).name === options.toClass);
  return [
    ...found.flatMap(({ claim, snapshots }) =>
      snapshots.length === 0
        ? []
        : [
            `${claimText(claim)}: its snapshots stay with the old volume, and delay its deletion: ${snapshots.join(", ")}`,
          ],
    ),
    ...claims.flatMap(({ old, ...claim }) => {
      const before = textAt(old, "spec", "csi", "fsType");
      const after = textAt(target, "parameters", "csi.storage.k8s.io/fstype");
      return before === undefined || after === undefined || before === after
        ? []
        : [`${claimText(claim)}: keeps its file system ${before}`];
    }),
  ];
}

/** The snapshots of a claim; none in a cluster without them. */
async function snapshotsOf(kubectl: MoveWork["kubectl"], claim: Moving): Promise<readonly string[]> {
  const { exitCode, stdout } = await kubectl.run([
    "get",
    "volumesnapshots.snapshot.storage.k8s.io",
    "-n",
    claim.namespace,
    "-o",
    "json",
  ]);
  if (exitCode !== 0) return [];
  return mappingsAt(JSON.parse(stdout), "items")
    .filter(each => textAt(each, "spec", "source", "persistentVolumeClaimName") === claim.name)
    .map(each => placeOfObject(each).name);
}
