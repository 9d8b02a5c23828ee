import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientsIn } from "../../../../lib/drivers/zfs/cli/nfs.ts";
import { mounted, nfsCache, nfsClients, usersStep } from "../../../fakes/zfs/nfsd.ts";

// Who uses a file system, by each awk that hosts have: mawk (Debian), gawk (Red Hat) and that of busybox, where they are installed.

let folder = "";
let bin = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-users-"));
  bin = join(folder, "bin");
  mkdirSync(bin);
});
afterEach(() => rmSync(folder, { recursive: true }));

/** What the step prints for a folder of the model, whose /proc is its folder of that name. */
function usersOf(place: string, program: string, privileged: readonly string[] = []): string {
  const path = Bun.which(program);
  if (path !== null) symlinkSync(path, join(bin, "awk"));
  const argv = usersStep(place, privileged).argv.map(word => String(word).replaceAll("/proc/", `${folder}/proc/`));
  const { stdout, stderr } = Bun.spawnSync(argv, { env: { PATH: `${bin}:/usr/bin:/bin` }, timeout: 20_000 });
  expect(stderr.toString()).toBe("");
  rmSync(join(bin, "awk"), { force: true });
  return stdout.toString().replaceAll(`${folder}/proc/`, "/proc/");
}

describe.each(["mawk", "gawk", "busybox"])("with %s", program => {
  const run = test.skipIf(Bun.which(program) === null);

  run.each([
    ["/tank/a", "/tank/a"],
    ["/tank/a b", "/tank/a\\040b"],
    ["/tank/a\\b", "/tank/a\\134b"],
    ["/tank/a&b", "/tank/a&b"],
    ["/tank/a=b", "/tank/a=b"],
  ])("the cache and the clients of %j are found", (place, shown) => {
    nfsCache(folder, ["/tank/other", shown]);
    nfsClients(folder, [
      { id: 3, open: ["/tank/other"] },
      { id: 4, open: ["/tank/other", place, place] },
    ]);
    mounted(folder, place);
    const lines = usersOf(place, program).trimEnd().split("\n");
    expect(lines[0]).toBe(`/proc/net/rpc/nfsd.export/content:${shown}\t*(rw,sec=1)`);
    expect([lines.length, clientsIn(lines.join("\n"))]).toEqual([2, ["/proc/fs/nfsd/clients/4"]]);
    expect(usersOf(place, program, ["env", "-u", "nothing"]).trimEnd().split("\n")).toEqual(lines);
  });

  run("others are not taken for users, and without answers of the kernel there are none", () => {
    expect(usersOf("/tank/a", program)).toBe("");
    nfsCache(folder, ["/tank/a-2", "/old/tank/a", "/tank"]);
    nfsClients(folder, [{ id: 3, open: ["/tank/a-2", "/tank"] }]);
    mounted(folder, "/tank/a");
    expect(usersOf("/tank/a", program)).toBe("");
  });
});
