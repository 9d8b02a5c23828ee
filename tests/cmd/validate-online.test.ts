import { afterEach, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { addValidate } from "../../cmd/validate/command.ts";

let folder = "";
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("with --online, what an administrator should know about a host is written, and the file is still good", async () => {
  folder = mkdtempSync(join(tmpdir(), "csimux-online-"));
  const files = {
    zfs: "#!/bin/sh\nprintf 'tank\\ttype\\tfilesystem\\t-\\n'\n",
    awk: "#!/bin/sh\nprintf 'anna\\nb\\033en\\n'\n",
    "one.yaml":
      "driver: zfs-local-dataset\nzfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s }\n",
  };
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text);
    chmodSync(join(folder, name), 0o755);
  }
  const err: string[] = [];
  const program = new Command().exitOverride();
  addValidate(program, {
    ...{
      out: () => {},
      err: text => void err.push(text),
      stdin: async () => "",
      env: { PATH: `${folder}:/usr/bin:/bin` },
    },
    ...{ hostname: "here", colour: false, pause: async () => {} },
  });
  const before = process.exitCode;
  process.exitCode = 0;
  await program.parseAsync(["node", "csimux", "validate", "--online", join(folder, "one.yaml")]);
  const code = process.exitCode;
  process.exitCode = before ?? 0;
  const words = /^csimux: connection "one": other accounts .*: anna b\\u001ben\n$/;
  expect([code, err.join("")]).toEqual([0, expect.stringMatching(words)]);
});
