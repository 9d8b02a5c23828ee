import { expect, test } from "bun:test";
import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, zoneEnvironment } from "../../scripts/sandbox.ts";
import { codeOf, World } from "./world.ts";

const addresses = `node:
  addresses: { nas.example: 127.0.0.9, other.example: 127.0.0.9 }
  addressesByTopology:
    - { requirements: { zone: elsewhere }, addresses: { nas.example: 127.0.0.2, other.example: 127.0.0.2 } }
    - { requirements: { zone: ${zoneEnvironment.CSIMUX_ZONE} }, addresses: { nas.example: 127.0.0.3 } }
`;

test("a node that has not been asked for its topology reaches a storage at the address for it", async () => {
  const sandbox = await makeSandbox("zone", ["one"]);
  const bin = join(sandbox.folder, "bin");
  const calls = join(sandbox.folder, "calls");
  await mkdir(bin);
  await writeFile(join(bin, "mount"), `#!/bin/sh\necho "$@" >> ${calls}\nexit 32\n`, { mode: 0o755 });
  await appendFile(sandbox.config, addresses);
  const command = [await build()] as const;
  const env = { PATH: `${bin}:${process.env["PATH"]}` };
  const world = await World.on(sandbox, () => startDaemon({ command, sandbox, env }));
  const stagingTargetPath = join(sandbox.folder, "staging");
  await mkdir(stagingTargetPath);
  const staged = async (server: string) => {
    const volumeContext = { node_attach_driver: "nfs", server, share: "/a" };
    const request = { volumeId: "v:one/a", volumeContext, stagingTargetPath, volumeCapability: mountCapability };
    const code = await codeOf(world.node("nodeStageVolume", request));
    const tried = await readFile(calls, "utf8").catch(() => "");
    await writeFile(calls, "");
    return [code !== "ok", /127\.0\.0\.\d/.exec(tried)?.[0]];
  };
  try {
    expect(await staged("nas.example")).toEqual([true, "127.0.0.3"]);
    expect(await staged("other.example")).toEqual([true, "127.0.0.9"]);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);
