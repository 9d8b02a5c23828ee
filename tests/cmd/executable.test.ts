import { expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";

/** A command in this working folder, with no environment. */
async function ended(args: readonly string[], cwd: string) {
  return spawnSync(await build(), args, { timeout: 10_000, encoding: "utf8", cwd, env: {} });
}

test("the .env and the bunfig.toml of the working folder are not obeyed", async () => {
  const { folder, config, remove } = await makeSandbox("off");
  try {
    await writeFile(join(folder, ".env"), "CSI_NODE_ID=foreign\n");
    await writeFile(join(folder, "bunfig.toml"), 'preload = ["./foreign.ts"]\n');
    await writeFile(join(folder, "foreign.ts"), 'console.log("foreign code");\n');
    const decoded = await ended(["id", "decode", "v:one/pvc-1", "--output=json"], folder);
    expect(decoded.stdout).toBe('{"kind":"volume","connection":"one","id":"pvc-1"}\n');
    const topology = await ended(["topology", "--config", config], folder);
    expect(topology.stdout).not.toContain("foreign");
    expect(topology.stderr).toContain("the name of this node is unknown");
  } finally {
    await remove();
  }
});

test.each(["--help", "serve --help", "id decode v:one/pvc-1"])(
  "a reader that has closed the pipe does not make %s fail",
  async args => {
    const child = spawn(await build(), args.split(" "), { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    let text = "";
    child.stderr.on("data", chunk => {
      text += chunk;
    });
    const [code] = (await once(child, "close")) as [number | null];
    expect(text).toBe("");
    expect(code).toBe(0);
  },
);

test.each(["--help", "--version", "id decode v:one/pvc-1"])(
  "output that gets lost fails %s in one line",
  async args => {
    const { status, stderr } = spawnSync("sh", ["-c", `exec "$0" ${args} >/dev/full`, await build()], {
      timeout: 10_000,
      encoding: "utf8",
    });
    expect(stderr).toBe("csimux: the output cannot be written (ENOSPC)\n");
    expect(status).toBe(1);
  },
);
