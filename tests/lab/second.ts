import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { quoted } from "../../lib/io/script.ts";
import { connects, type Daemon, serveArguments } from "../../scripts/daemon.ts";
import type { Sandbox } from "../../scripts/sandbox.ts";
import { World } from "../serve/world.ts";
import { executable, type Setting, settingSandbox } from "./rig.ts";
import { run, waitFor } from "./run.ts";

/** The address of the second guest of a `.pair.lab.ts` test for the first guest. */
export const secondAddress = process.env["SECOND_GUEST"] ?? "";

const options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"].flatMap(option => [
  "-o",
  option,
]);
const second = `root@${secondAddress}`;
const toSecond = ["ssh", ...options, second] as const;

/** Runs a program in the second guest and returns its output; throws with its error output if it fails. */
export const onSecond = (argv: readonly [string, ...string[]], timeoutMs = 60_000): Promise<string> =>
  run([...toSecond, argv.map(quoted).join(" ")], timeoutMs);

/** The current traces in the second guest, for `leftSince`. */
export async function secondTraces(): Promise<ReadonlySet<string>> {
  const listed = await onSecond(["/opt/csimux/bun", "/opt/csimux/traces.js"]);
  if (listed === "") throw new Error("the second guest listed nothing, not even its own disks");
  return new Set(listed.split("\n"));
}

/** Starts csimux there and forwards its socket, with one ssh that runs as long as csimux. */
async function startThere(sandbox: Sandbox, env: Readonly<Record<string, string>>): Promise<Daemon> {
  const { folder, socket } = sandbox;
  await rm(socket, { force: true });
  const variables = Object.entries({ CSI_NODE_ID: "second", ...env }).map(([name, value]) => `${name}=${value}`);
  const program = ["env", ...variables, executable, ...serveArguments(sandbox)].map(quoted).join(" ");
  const script = `echo $$ >${folder}/pid; exec ${program} >>${folder}/csimux.log 2>&1`;
  const carried = ["-o", "ExitOnForwardFailure=yes", "-L", `${socket}:${socket}`] as const;
  const child = spawn("ssh", [...options, ...carried, second, script], { stdio: ["ignore", "inherit", "inherit"] });
  const ended = once(child, "exit").then(([code]) => (typeof code === "number" ? code : undefined));
  const log = () => onSecond(["cat", `${folder}/csimux.log`]);
  const up = () =>
    onSecond(["test", "-S", socket]).then(
      () => connects(socket),
      () => false,
    );
  await waitFor("csimux on the second guest", async () => ((await up()) ? true : undefined), 60_000);
  const pid = Number(await onSecond(["cat", `${folder}/pid`]));
  const stop = async () => {
    const from = performance.now();
    await onSecond(["kill", "-TERM", String(pid)]).catch(() => {});
    const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
    const code = await ended;
    clearTimeout(timer);
    return { code, ms: performance.now() - from };
  };
  return { pid, log, stop };
}

const unmountBelow = `
points=$(awk -v folder="$1/" 'index($5, folder) == 1 { print $5 }' /proc/self/mountinfo | tac)
for point in $points; do umount --lazy "$point"; done
rm -rf "$1"
echo "$points"`;

/**
 * Starts csimux in the second guest and returns it like a local one. Its folders have the same paths there; for `mountVolume`,
 * pass `onNode: onSecond`.
 */
export async function startOnSecond(setting: Setting): Promise<World> {
  const here = await settingSandbox(setting);
  await run(["scp", "-q", "-r", ...options, here.folder, `${second}:${here.folder}`]);
  const remove = async (): Promise<readonly string[]> => {
    const left = await onSecond(["sh", "-c", unmountBelow, "remove", here.folder]);
    return [...(await here.remove()), ...left.split("\n").filter(point => point !== "")];
  };
  const sandbox = { ...here, remove };
  return World.on(sandbox, () => startThere(sandbox, setting.env ?? {}));
}
