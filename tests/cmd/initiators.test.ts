import { expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { initiatorsOf } from "../../cmd/serve/node-info.ts";

test.each([
  [[], []],
  [["nfs", "iscsi"], ["iqn.1993-08.org.debian:a"]],
  [
    ["nvmeof", "iscsi"],
    ["iqn.1993-08.org.debian:a", "nqn.2014-08.org.nvmexpress:uuid:1"],
  ],
])("the names of a node with volumes of the protocols %p are %p", async (protocols, names) => {
  const root = await mkdtemp(join(tmpdir(), "csimux-names-"));
  try {
    for (const folder of ["etc/iscsi", "etc/nvme"]) await mkdir(join(root, folder), { recursive: true });
    await writeFile(join(root, "etc/iscsi/initiatorname.iscsi"), "InitiatorName=iqn.1993-08.org.debian:a\n");
    await writeFile(join(root, "etc/nvme/hostnqn"), "nqn.2014-08.org.nvmexpress:uuid:1\n");
    await writeFile(join(root, "etc/nvme/hostid"), "11111111-2222-3333-4444-555555555555\n");
    const volumes = { protocols: async () => new Set(protocols) };
    expect(await initiatorsOf(volumes, async () => root, root)).toEqual(names);
  } finally {
    await rm(root, { recursive: true });
  }
});
