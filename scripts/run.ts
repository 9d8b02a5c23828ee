import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { build } from "./build.ts";
import { engineSettings } from "./engine.ts";
import { root } from "./spawned.ts";

/** The folder of the quick start's socket, volumes and records. */
export const quickstart = `${root}/run`;

/** Builds csimux and serves examples/quickstart until Ctrl-C; returns csimux's exit code. */
async function run(): Promise<number> {
  const executable = await build();
  for (const folder of ["fast", "archive", "state"]) await mkdir(`${quickstart}/${folder}`, { recursive: true });
  const endpoint = `unix://${quickstart}/csi.sock`;
  console.log(`csimux serves examples/quickstart
  listening on  ${endpoint}
  volumes in    ${quickstart}/fast and ${quickstart}/archive
Try next, in another terminal:
  make try                                          takes a volume through its life on both connections
  dist/csimux probe --endpoint ${endpoint}
  dist/csimux id decode v:fast/pvc-1
  QUICKSTART=${quickstart} dist/csimux validate --config examples/quickstart/proxy.yaml
Change a file in examples/quickstart/connections and watch the log. Stop with Ctrl-C.
`);
  const flags = ["--endpoint", endpoint, "--config", "examples/quickstart/proxy.yaml", "--name", "csimux.storage"];
  const child = spawn(executable, ["serve", ...flags, "--state-dir", `${quickstart}/state`], {
    cwd: root,
    stdio: "inherit",
    env: {
      ...engineSettings,
      ...process.env,
      QUICKSTART: quickstart,
      CSI_NODE_ID: process.env["CSI_NODE_ID"] ?? hostname(),
    },
  });
  // The terminal sends Ctrl-C to csimux too; a second signal would make it stop without draining.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => void child.kill("SIGTERM"));
  return new Promise(resolve => {
    child.once("error", error => {
      console.error(error.message);
      resolve(1);
    });
    child.once("exit", code => resolve(code ?? 1));
  });
}

if (import.meta.main) process.exit(await run());
