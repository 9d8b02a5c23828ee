import { expect, test } from "bun:test";
import type { Capability } from "../../lib/core/access.ts";
import { type LogLine, leveledLog } from "../../lib/core/log.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { muxWorld, request } from "./world.ts";

const mount: Capability = {
  ...{ kind: "mount", fsType: undefined, mountGroup: undefined, mode: "single-node-writer" },
  mountFlags: ["noatime", "nfsvers=4.1", "password=secret"],
};

test("mount options that reach nobody are said once for a connection of folders, without their values", async () => {
  const world = muxWorld(["folders", "more", "servers"]);
  const access = world.memory("folders").driver().access;
  for (const name of ["folders", "more"]) world.traits.set(name, { access: { ...access, filesystems: "any" } });
  world.traits.set("servers", { access: { ...access, filesystems: ["nfs"] } });
  const lines: LogLine[] = [];
  const call = { ...testCall(), log: leveledLog("info", line => lines.push(line)) };
  for (const name of ["folders", "more", "servers"])
    for (const volume of ["a", "b"])
      await world.volumes.create(request(`${name}-${volume}`, name, { capabilities: [mount] }), call);
  expect(lines.map(({ fields }) => [fields["connection"], fields["option"]])).toEqual([
    ["folders", "nfsvers"],
    ["folders", "password"],
    ["more", "nfsvers"],
    ["more", "password"],
  ]);
});
