import { test } from "bun:test";
import { twoControllers } from "../../contract/two-controllers.ts";
import { backupRig, hasRestic, kopiaRepository, resticRepository } from "./backup-rig.ts";
import { directoryRig } from "./directory-rig.ts";

test("two controllers on one base folder agree on concurrent calls", async () => {
  const rig = await directoryRig();
  try {
    await twoControllers(rig, 10);
  } finally {
    await rig.close();
  }
}, 120_000);

const tools = [
  ["kopia", kopiaRepository, 3] as const,
  ...(hasRestic ? [["restic", resticRepository, 1] as const] : []),
];

test.each(tools)(
  "two controllers on one repository of %s agree on concurrent calls",
  async (_tool, repositoryOf, rounds) => {
    const rig = await backupRig(await repositoryOf());
    try {
      await twoControllers(
        { ...rig, remains: async () => (await rig.remains()).filter(each => !isOfRestic(each)) },
        rounds,
      );
    } finally {
      await rig.close();
    }
  },
  300_000,
);

/** What a repository of restic consists of, whether there are snapshots or not. */
const isOfRestic = (name: string): boolean =>
  ["config", "data", "index", "keys", "locks", "snapshots"].includes(name.split("/")[0] ?? "");
