import { spawn } from "node:child_process";
import { startDsm } from "../tests/fakes/dsm/double.ts";
import { startDouble } from "../tests/fakes/truenas/double.ts";
import type { Dataset } from "../tests/fakes/truenas/state.ts";
import { scaleVersions, type Version } from "../tests/fakes/truenas/versions.ts";

/** Clients of TrueNAS and DSM that others wrote, run against the doubles: what they take for granted must hold there, too. */

/** A variable of the environment that names the command of a client, such as PEER_TNS_CSI_25_10 or PEER_SYNOLOGY_CSI_DSM_7. */
const variable = /^PEER_(?<client>[A-Z0-9_]+?)_(?:DSM_(?<dsm>[67])|(?<version>[0-9]{2}_[0-9]{1,2}))$/;

/** A double, as a client sees it. */
interface Running {
  /** Where it is, and how to log in. */
  readonly environment: Readonly<Record<string, string>>;
  requests(): number;
  /** What a client has left. */
  left(): readonly string[];
  close(): Promise<void>;
}

interface Peer {
  readonly client: string;
  readonly system: string;
  /** For /bin/sh. */
  readonly command: string;
  start(): Promise<Running>;
}

/** What may be left: the datasets above volumes and above detached snapshots. */
const folders: ReadonlySet<string> = new Set(["tank", "tank/volumes", "tank/snapshots"]);

async function startTrueNas(version: Version): Promise<Running> {
  const double = await startDouble({ version, loginLimit: 20 });
  // Made by an administrator: not every client makes it.
  const { datasets } = double.state;
  for (const name of folders)
    datasets[name] ??= { ...structuredClone(datasets["tank"]), name, guid: String(folders.size) } as Dataset;
  const environment = {
    TRUENAS_VERSION: version,
    TRUENAS_HOST: "127.0.0.1",
    TRUENAS_PORT: String(double.port),
    TRUENAS_API_KEY: "1-secret",
    TRUENAS_POOL: "tank",
  };
  const names = () => Object.keys({ ...double.state.datasets, ...double.state.snapshots });
  return {
    environment,
    requests: () => double.requests.length,
    left: () => names().filter(name => !folders.has(name)),
    close: () => double.close(),
  };
}

async function startSynology(version: 6 | 7): Promise<Running> {
  const dsm = await startDsm(version);
  const environment = {
    DSM_VERSION: String(version),
    DSM_HOST: "127.0.0.1",
    DSM_PORT: String(dsm.port),
    DSM_USERNAME: "csi",
    DSM_PASSWORD: "secret-pw",
  };
  return {
    environment,
    requests: () => dsm.requests.length,
    left: () => dsm.state.remains(),
    close: () => dsm.close(),
  };
}

/** The clients that the variables name. Throws for a version that no double can be. */
function peersIn(environment: NodeJS.ProcessEnv): readonly Peer[] {
  return Object.entries(environment).flatMap(([name, command = ""]) => {
    const { client: words, version: digits, dsm } = variable.exec(name)?.groups ?? {};
    if (words === undefined) return [];
    const client = words.toLowerCase().replaceAll("_", "-");
    if (dsm !== undefined)
      return [{ client, system: `DSM ${dsm}`, command, start: () => startSynology(dsm === "6" ? 6 : 7) }];
    const text = (digits ?? "").replace("_", ".");
    const version = scaleVersions.find(each => each === text);
    if (!version) throw new Error(`${name}: the double can be ${scaleVersions.join(", ")}, not ${text}`);
    return [{ client, system: `TrueNAS ${version}`, command, start: () => startTrueNas(version) }];
  });
}

/** Runs a command with its output on ours; answers the exit code, or undefined after a signal. */
const exitCode = (command: string, env: NodeJS.ProcessEnv): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { env, stdio: "inherit" });
    child.once("error", reject);
    child.once("close", code => resolve(code ?? undefined));
  });

/** Runs a client against a new double; returns the problem, or undefined. */
async function ran({ command, start }: Peer): Promise<string | undefined> {
  const double = await start();
  try {
    const code = await exitCode(command, { ...process.env, ...double.environment });
    if (code !== 0) return `exit code ${code ?? "none, because of a signal"}`;
    if (double.requests() === 0) return "it has not asked the double for anything";
    const left = double.left();
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
  console.log(`${wrong === undefined ? "ok  " : "FAIL"} ${peer.client} on ${peer.system}${wrong ? `: ${wrong}` : ""}`);
  if (wrong !== undefined) process.exitCode = 1;
}
