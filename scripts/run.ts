import { spawn } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { build } from "./build.ts";
import { root } from "./spawned.ts";

/** Where the quick start keeps its socket, its volumes and its records. */
export const quickstart = `${root}/run`;

/** Builds csimux and serves examples/quickstart until Ctrl-C; answers the exit code of csimux. */
async function run(): Promise<number> {
  const executable = await build();
  for (const folder of ["fast", "archive", "state"]) await mkdir(`${quickstart}/${folder}`, { recursive: true });
  const endpoint = `unix://${quickstart}/csi.sock`;
  console.log(`csimux serves examples/quickstart
  listening on  ${endpoint}
  volumes in    ${quickstart}/fast and ${quickstart}/archive
Try next, in another terminal:
  make try                                          a volume's life on both connections
  dist/csimux probe --endpoint ${endpoint}
  dist/csimux id decode v:fast/pvc-1
  QUICKSTART=${quickstart} dist/csimux validate --config examples/quickstart/proxy.yaml
Change a file in examples/quickstart/connections and watch. Ctrl-C ends it.
`);
  const flags = ["--endpoint", endpoint, "--config", "examples/quickstart/proxy.yaml", "--name", "csimux.example"];
  const child = spawn(executable, ["serve", ...flags, "--state-dir", `${quickstart}/state`], {
    cwd: root,
    stdio: "inherit",
    env: {
      UV_THREADPOOL_SIZE: "12",
      ...process.env,
      QUICKSTART: quickstart,
      CSI_NODE_ID: process.env["CSI_NODE_ID"] ?? hostname(),
    },
  });
  // Ctrl-C reaches csimux from the terminal by itself; a second signal would make it stop without draining.
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
