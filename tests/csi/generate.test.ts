import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./rig.ts";

const root = join(import.meta.dirname, "..", "..");
const generated = join("lib", "csi", "gen", "csi", "v1", "csi_pb.ts");

const check = (folder: string) =>
  spawnSync(process.execPath, [join(folder, "scripts", "generate.ts"), "--check"], {
    encoding: "utf8",
    timeout: 60_000,
  });

test("the committed code is what proto/ generates; stale code is named and left as it is", () => {
  const copy = temporaryFolder();
  try {
    for (const folder of ["proto", "scripts", join("lib", "csi", "gen")]) {
      mkdirSync(join(copy, folder), { recursive: true });
      cpSync(join(root, folder), join(copy, folder), { recursive: true });
    }
    symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
    expect(check(copy).status).toBe(0);

    const stale = `${readFileSync(join(copy, generated), "utf8")}// edited by hand\n`;
    writeFileSync(join(copy, generated), stale);
    const { status, stderr } = check(copy);
    expect(status).toBe(1);
    expect(stderr).toContain(`${generated} is not what proto/ generates`);
    expect(readFileSync(join(copy, generated), "utf8")).toBe(stale);
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
});
