import { expect, test } from "bun:test";
import type { Reason } from "../../lib/health/reasons.ts";
import { storageFindings } from "../../lib/health/storage.ts";

const silent: readonly Reason[] = ["NotAnswering"];
const down: readonly Reason[] = ["DeviceGone", "SessionDown"];
const lost: readonly Reason[] = ["PathsLost"];
const own: readonly Reason[] = ["ReadOnlyFileSystem", "FolderRemoved", "NotMounted"];

test.each<[string, readonly (readonly Reason[])[], boolean | undefined, readonly Reason[]]>([
  ["without volumes and not asked is well", [], undefined, []],
  ["without volumes that can be reached is well", [], true, []],
  ["without volumes that cannot be reached is unreachable", [], false, ["StorageUnreachable"]],
  ["whose volumes are well is well, whatever its server says to a question", [[], []], false, []],
  ["of which no volume answers is unreachable", [silent, down], true, ["StorageUnreachable"]],
  ["of which some volumes do not answer is degraded", [silent, []], undefined, ["StorageDegraded"]],
  ["with a volume that lost ways is degraded", [lost], undefined, ["StorageDegraded"]],
  ["is not to blame for what befell a single volume", [own], undefined, []],
])("a storage %s", (_, volumes, answers, expected) => {
  const found = storageFindings({
    name: "nfs nas",
    volumes: volumes.map(reasons => reasons.map(reason => ({ reason, message: "" }))),
    answers,
  });
  expect(found.map(({ reason }) => reason)).toEqual([...expected]);
});
