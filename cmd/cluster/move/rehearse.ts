import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import { yamlText } from "../../../lib/yaml/print.ts";
import type { Moving } from "./cluster-objects.ts";
import { claimText, isBlock, isObjectName, modesOf, placeOfObject } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { refusalsOf } from "./refusals.ts";
import { forEachClaim, type MoveWork } from "./work.ts";

/** The end of the name of a second claim. */
const ending = "-rehearsal";

/** `csimux move rehearse`: a second claim with the content of each, in the new class, and a pod to check it. Nothing stops. */
export async function rehearse(work: MoveWork, out: (text: string) => void): Promise<number> {
  const { options, objects, claims, kubectl } = work;
  const { toClass = "" } = options;
  const refusals = refusalsOf(objects, claims, toClass, options);
  if (refusals.length > 0) throw new MoveRefusal(...refusals);
  const manifests = claims.map(each => rehearsal(each, toClass));
  await forEachClaim(claims, async claim => {
    const name = `${claim.name}${ending}`;
    const driver = textAt(claim.old, "spec", "csi", "driver");
    // external-provisioner 6.3, controller.go, getPVCSource: source and class must have one driver name.
    if (driver !== claim.driver)
      throw new MoveRefusal(
        `claim ${claimText(claim)} cannot be rehearsed: Kubernetes clones no volume of the driver ${driver} for a class of ${claim.driver}; csimux move copy stops no pod and can be undone`,
      );
    if (!isObjectName(name)) throw new MoveRefusal(`the name of claim ${claimText(claim)} is too long for a rehearsal`);
    const before = await kubectl.get("pvc", name, claim.namespace);
    if (before !== undefined && textAt(before, "spec", "dataSource", "name") !== claim.name)
      throw new MoveRefusal(`claim ${claim.namespace}/${name} exists and is not a rehearsal; delete or rename it`);
  });
  for (const manifest of manifests) {
    const { namespace, name } = placeOfObject(manifest);
    if ((await kubectl.get("pvc", name, namespace)) === undefined)
      await kubectl.change(["create", "-f", "-"], manifest);
    kubectl.say(`${namespace}/${name}: copied while it is Pending (kubectl describe pvc ${name} -n ${namespace})`);
  }
  kubectl.say("pods to check the copies; apply these manifests, then delete pods and claims:");
  out(claims.map(each => yamlText(podOf(each))).join("---\n"));
  kubectl.say(claims.map(each => `kubectl delete pod,pvc ${each.name}${ending} -n ${each.namespace}`).join("; "));
  return 0;
}

const rehearsal = ({ claim, namespace, name }: Moving, storageClassName: string): Mapping => {
  const volumeMode = textAt(claim, "spec", "volumeMode");
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name: `${name}${ending}` },
    spec: {
      storageClassName,
      accessModes: modesOf(claim),
      ...(volumeMode !== undefined && { volumeMode }),
      resources: { requests: { storage: textAt(claim, "spec", "resources", "requests", "storage") } },
      dataSource: { kind: "PersistentVolumeClaim", name },
    },
  };
};

/** A pod that mounts the copy at /rehearsal and sleeps. */
const podOf = ({ claim, namespace, name }: Moving): Mapping => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name: `${name}${ending}` },
  spec: {
    containers: [
      {
        name: "shell",
        image: "busybox",
        command: ["sleep", "1d"],
        ...(isBlock(claim)
          ? { volumeDevices: [{ name: "copy", devicePath: "/dev/rehearsal" }] }
          : { volumeMounts: [{ name: "copy", mountPath: "/rehearsal" }] }),
      },
    ],
    volumes: [{ name: "copy", persistentVolumeClaim: { claimName: `${name}${ending}` } }],
  },
});
