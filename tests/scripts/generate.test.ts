import { afterAll, expect, test } from "bun:test";
import { appendFile, cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stale } from "../../scripts/generate/generated.ts";
import { protobufCode } from "../../scripts/generate/protobuf.ts";
import { generators, staleFiles } from "../../scripts/generate.ts";
import { root } from "../../scripts/spawned.ts";

const copy = await mkdtemp(join(tmpdir(), "csimux-generate-"));
afterAll(() => rm(copy, { recursive: true, force: true }));

test("every generated file is committed as its source generates it", async () => {
  expect(generators.length).toBeGreaterThan(4);
  expect(await staleFiles()).toEqual([]);
});

test("an edited file and one that nothing generates are found, and left as they are", async () => {
  const generated = await protobufCode();
  const edited = "lib/csi/gen/csi/v1/csi_pb.ts";
  await cp(join(root, "lib/csi/gen"), join(copy, "lib/csi/gen"), { recursive: true });
  expect(await stale(generated, copy)).toEqual([]);
  await appendFile(join(copy, edited), "// edited by hand\n");
  await writeFile(join(copy, "lib/csi/gen/left.ts"), "");
  expect(await stale(generated, copy)).toEqual([edited, "lib/csi/gen/left.ts"]);
  expect(await readFile(join(copy, edited), "utf8")).toEndWith("// edited by hand\n");
});
