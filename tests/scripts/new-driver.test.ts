import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { driverFiles } from "../../scripts/generate/new-driver.ts";
import { root } from "../../scripts/spawned.ts";

test("a new driver has its own name everywhere, and all its imports exist", async () => {
  const files = await driverFiles("local-image");
  const index = files.get("lib/drivers/index.ts") ?? "";
  expect(index).toMatch(
    /^import \{ localImage \} from "\.\/local-image\/module\.ts";\n[\s\S]*\n {2}localImage,\n\];\n$/,
  );
  expect(files.size).toBe(7);
  for (const [path, text] of files) {
    expect([path, /toy-?local/i.exec(text)]).toEqual([path, null]);
    const imports = [...text.matchAll(/from "(\..+)";/g)].map(([, file = ""]) => join(dirname(path), file));
    expect([path, imports.filter(file => !files.has(file) && !existsSync(join(root, file)))]).toEqual([path, []]);
  }
  for (const wrong of ["", "Local", "../x", "a--b"]) await expect(driverFiles(wrong)).rejects.toThrow("usage");
});
