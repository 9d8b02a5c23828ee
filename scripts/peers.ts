import { spawn } from "node:child_process";
import { startDouble } from "../tests/fakes/truenas/double.ts";
import { scaleVersions, type Version } from "../tests/fakes/truenas/versions.ts";

/** Clients of TrueNAS that others wrote, run against the double: what they take for granted must hold there too. */

/** A variable of the environment that names the command of a client, such as PEER_TNS_CSI_25_10. */
const variable = /^PEER_(?<client>[A-Z0-9_]+?)_(?<version>[0-9]{2}_[0-9]{1,2})$/;

interface Peer {
  readonly client: string;
  readonly version: Version;
  /** For /bin/sh. */
  readonly command: string;
}

/** The clients that the variables name. Throws for a version that the double cannot be. */
function peersIn(environment: NodeJS.ProcessEnv): readonly Peer[] {
  return Object.entries(environment).flatMap(([name, command = ""]) => {
    const { client, version: digits } = variable.exec(name)?.groups ?? {};
    if (client === undefined || digits === undefined) return [];
    const text = digits.replace("_", ".");
    const version = scaleVersions.find(each => each === text);
    if (!version) throw new Error(`${name}: the double can be ${scaleVersions.join(", ")}, not ${text}`);
    return [{ client: client.toLowerCase().replaceAll("_", "-"), version, command }];
  });
}

/** Runs a command with its output on ours; answers the exit code, or undefined after a signal. */
const exitCode = (command: string, env: NodeJS.ProcessEnv): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { env, stdio: "inherit" });
    child.once("error", reject);
    child.once("close", code => resolve(code ?? undefined));
  });

/** What may be left: the datasets above volumes and above detached snapshots. */
const folders: ReadonlySet<string> = new Set(["tank", "tank/volumes", "tank/snapshots"]);

/** Runs a client against a new double; returns the problem, or undefined. */
async function ran({ version, command }: Peer): Promise<string | undefined> {
  const double = await startDouble({ version, loginLimit: 20 });
  try {
    const code = await exitCode(command, {
      ...process.env,
      TRUENAS_VERSION: version,
      TRUENAS_HOST: "127.0.0.1",
      TRUENAS_PORT: String(double.port),
      TRUENAS_API_KEY: "1-secret",
      TRUENAS_POOL: "tank",
    });
    if (code !== 0) return `exit code ${code ?? "none, because of a signal"}`;
    if (double.requests.length === 0) return "it has not asked the double for anything";
    const left = Object.keys({ ...double.state.datasets, ...double.state.snapshots }).filter(
      name => !folders.has(name),
    );
    return left.length > 0 ? `it has left ${left.join(", ")}` : undefined;
  } finally {
    await double.close();
  }
}

const peers = peersIn(process.env);
if (peers.length === 0)
  console.log(
    "skip test-peers: no variable PEER_<CLIENT>_<VERSION> names a command; see CONTRIBUTING.md, Other clients",
  );
for (const peer of peers) {
  const wrong = await ran(peer);
  console.log(`${wrong === undefined ? "ok  " : "FAIL"} ${peer.client} on ${peer.version}${wrong ? `: ${wrong}` : ""}`);
  if (wrong !== undefined) process.exitCode = 1;
}
