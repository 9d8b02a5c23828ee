import { join } from "node:path";
import { sampled } from "../tests/sample.ts";
import { build } from "./build.ts";
import { startDaemon } from "./daemon.ts";
import { makeSandbox, type Sandbox, type Topology } from "./sandbox.ts";
import { installSanity, sanityVersion } from "./sanity/program.ts";
import { beginDsm, beginObjectiveFs, type Storage } from "./sanity/storages.ts";
import { runSanity } from "./sanity/suite.ts";
import { truenasVariants } from "./sanity/truenas.ts";
import { beginZfs, zfsDrivers } from "./sanity/zfs.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";

/** One run of the suite. */
interface Variant {
  readonly name: string;
  readonly kind: Topology;
  /** Parameters of every CreateVolume. */
  readonly parameters: Readonly<Record<string, string>>;
  /** As SanityRun.leave. */
  readonly leave?: string;
  /** Runs only if named. */
  readonly named?: boolean;
  /** An old driver name and its connection; the suite runs against that name. */
  readonly alias?: { readonly name: string; readonly connection: string };
  /** Starts the fake storage system and writes its connection file. */
  begin?(sandbox: Sandbox): Promise<Storage>;
}

const variants: readonly Variant[] = [
  { name: "two connections", kind: "off", parameters: { connection: "one" } },
  { name: "topology by zone", kind: "zone", parameters: { connection: "one" } },
  { name: "topology by node", kind: "node", parameters: { connection: "two" } },
  // The group's policy is "ordered": one spec takes snapshots of one name from two volumes and expects a refusal of the second, and
  // csimux keeps snapshot names unique on each connection, not over all of them.
  { name: "a group of connections", kind: "group", parameters: { connection: "pool" } },
  {
    name: "an old driver name, ids without prefix",
    kind: "off",
    parameters: {},
    alias: { name: "org.democratic-csi.one", connection: "one" },
  },
  {
    name: "a Synology system, without nodes, which need a kernel with iSCSI",
    kind: "off",
    parameters: { connection: "syno" },
    leave: "Node Service",
    begin: beginDsm,
  },
  {
    name: "shared folders of a Synology system over NFS, without nodes",
    kind: "off",
    parameters: { connection: "syno-nfs" },
    leave: "Node Service",
    begin: beginDsm,
  },
  {
    name: "shared folders of a Synology system over SMB, without nodes",
    kind: "off",
    parameters: { connection: "syno-smb" },
    leave: "Node Service",
    begin: beginDsm,
  },
  {
    name: "file systems of ObjectiveFS, without snapshots, clones, sizes and health",
    kind: "off",
    parameters: { connection: "ofs" },
    leave: "[Ss]napshot|ExpandVolume|existing source volume|health for a valid volume",
    begin: beginObjectiveFs,
  },
  ...zfsDrivers.map(
    (driver): Variant => ({
      name: `${driver} on a model of its host, without nodes`,
      kind: "off",
      parameters: { connection: "zfs" },
      leave: "Node Service",
      begin: sandbox => beginZfs(driver, sandbox),
    }),
  ),
  ...truenasVariants,
];

const oneFailure = (message: string): Tally => {
  console.log(`  FAILED  ${message}`);
  return { ...nothing, failed: 1 };
};

async function runAgainstDaemon(
  program: string,
  command: string,
  { parameters, leave, alias }: Variant,
  sandbox: Sandbox,
  storage: Storage | undefined,
): Promise<Tally> {
  const { env = {}, secrets, wrap = [] } = storage ?? {};
  const [first = command, ...rest] = [...wrap, command];
  const flags = alias ? ["--alias", `${alias.name}=${alias.connection}`] : [];
  const daemon = await startDaemon({ command: [first, ...rest], sandbox, env, flags });
  const suite = {
    program,
    ...sandbox,
    ...(alias && { socket: join(sandbox.folder, `${alias.name}.sock`) }),
    parameters,
    ...(leave !== undefined && { leave }),
    ...(secrets && { secrets }),
  };
  const tally = await runSanity(suite).catch(error => oneFailure(String(error)));
  const { code } = await daemon.stop();
  if (code === 0) return tally;
  return plus(tally, oneFailure(`csimux ended with code ${code}:\n${await daemon.log()}`));
}

async function runVariant(program: string, command: string, variant: Variant): Promise<Tally> {
  console.log(`csi-sanity ${sanityVersion}: ${variant.name}`);
  const sandbox = await makeSandbox(variant.kind);
  const storage = await variant.begin?.(sandbox);
  const tally = await runAgainstDaemon(program, command, variant, sandbox, storage).catch(error =>
    oneFailure(String(error)),
  );
  const left = [...((await storage?.left()) ?? []), ...(await sandbox.remove())];
  await storage?.stop();
  return left.length === 0 ? tally : plus(tally, oneFailure(`left behind: ${left.join(", ")}`));
}

const chosen = (only: string): readonly Variant[] => {
  const exact = variants.filter(({ name }) => name === only);
  if (exact.length > 0) return exact;
  return variants.filter(({ name, named }) => (only === "" ? !named : name.includes(only)));
};

/** Variants that differ only in the driver of a model or its protocol: the commit draws one of each family. */
const families: readonly RegExp[] = [/^zfs-/, /^truenas-/, /Synology/];

/** The names of the variants that run by default, or of all. */
export function sanityVariants(which: "usual" | "all"): readonly string[] {
  if (which === "all") return variants.map(({ name }) => name);
  const usual: readonly string[] = chosen("").map(({ name }) => name);
  return families.reduce((left, family) => sampled(left, name => !family.test(name)), usual);
}

/** Runs the CSI conformance suite against the compiled executable: the variant of this name, or those with `only` in their names. */
async function sanity(command: string, only: string): Promise<Tally> {
  const program = await installSanity();
  if (program === undefined) throw new Error("building csi-sanity requires Go (https://go.dev)");
  let total = nothing;
  for (const variant of chosen(only)) total = plus(total, await runVariant(program, command, variant));
  return total;
}

if (import.meta.main) {
  const tally = await sanity(await build(), process.argv[2] ?? "");
  console.log(tallyLine(tally));
  process.exitCode = tally.failed > 0 || tally.passed === 0 ? 1 : 0;
}
