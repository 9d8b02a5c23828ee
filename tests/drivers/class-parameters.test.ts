import { expect, test } from "bun:test";
import { type ClassKind, misspeltParameter } from "../../lib/drivers/class-parameters.ts";

const file = "zfs:\n  datasetProperties:\n    'x:team': \"{{ parameters.deletestrategy }}\"\n# nametemplate\n";

const cases: readonly [ClassKind, Readonly<Record<string, string>>, string | undefined][] = [
  ["storage", { deleteStrategi: "retain" }, "deleteStrategy"],
  ["storage", { "democratic-csi.org/nas1/detachedVolumesFromSnapshot": "true" }, "detachedVolumesFromSnapshots"],
  ["storage", { nametemplate: "{{ name }}" }, "nameTemplate"],
  ["storage", { conection: "nas1" }, "connection"],
  ["storage", { "zfs.recordsise": "1M" }, "zfs.recordsize"],
  ["snapshot", { detachedSnapshot: "true" }, "detachedSnapshots"],
  // What is known, what a sidecar has added, and what a template reads or only could read.
  ["storage", { connection: "nas1", deleteStrategy: "retain", "zfs.atime": "off", fstype: "xfs" }, undefined],
  ["storage", { "csi.storage.k8s.io/pod/name": "a", "csi.storage.k8s.io/pvc/namespace": "shop" }, undefined],
  ["storage", { team: "blue", tier: "gold", deletestrategy: "x" }, undefined],
  ["storage", { nameTemplate: "{{ parameters.conection }}", conection: "x" }, undefined],
  ["snapshot", { driver: "restic", "csi.storage.k8s.io/volumesnapshot/name": "s" }, undefined],
];

test.each(cases)("a class of the kind %s with the parameters %p is refused for %p", (kind, parameters, meant) => {
  const why = misspeltParameter(kind, parameters, [file]);
  if (meant === undefined) expect(why).toBeUndefined();
  else expect(why).toEndWith(`: did you mean "${meant}"?`);
});
