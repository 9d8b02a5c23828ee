import { build } from "./build.ts";
import { startDaemon } from "./daemon.ts";
import { makeSandbox, type Sandbox, type Topology } from "./sandbox.ts";
import { installSanity, sanityVersion } from "./sanity-program.ts";
import { runSanity } from "./sanity-suite.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";

/** One run of the suite. */
interface Variant {
  readonly name: string;
  readonly kind: Topology;
  /** Parameters of every CreateVolume. */
  readonly parameters: Readonly<Record<string, string>>;
}

const variants: readonly Variant[] = [
  { name: "two connections", kind: "off", parameters: { connection: "one" } },
  { name: "topology by zone", kind: "zone", parameters: { connection: "one" } },
  { name: "topology by node", kind: "node", parameters: { connection: "two" } },
  { name: "a group of connections", kind: "group", parameters: { connection: "pool" } },
];

const oneFailure = (message: string): Tally => {
  console.log(`  FAILED  ${message}`);
  return { ...nothing, failed: 1 };
};

async function runAgainstDaemon(program: string, command: string, variant: Variant, sandbox: Sandbox): Promise<Tally> {
  const daemon = await startDaemon({ command: [command], sandbox });
  const tally = await runSanity({ program, ...sandbox, parameters: variant.parameters }).catch(error =>
    oneFailure(String(error)),
  );
  const { code } = await daemon.stop();
  if (code === 0) return tally;
  return plus(tally, oneFailure(`csimux ended with code ${code}:\n${await daemon.log()}`));
}

async function runVariant(program: string, command: string, variant: Variant): Promise<Tally> {
  console.log(`csi-sanity ${sanityVersion}: ${variant.name}`);
  const sandbox = await makeSandbox(variant.kind);
  const tally = await runAgainstDaemon(program, command, variant, sandbox).catch(error => oneFailure(String(error)));
  const left = await sandbox.remove();
  return left.length === 0 ? tally : plus(tally, oneFailure(`still mounted at the end: ${left.join(", ")}`));
}

/** Runs the CSI conformance suite against the compiled executable, once for each variant. */
export async function sanity(command: string): Promise<Tally> {
  const program = await installSanity();
  if (program === undefined) {
    console.log("csi-sanity DID NOT RUN: it is built with Go, and there is no Go on this machine (https://go.dev)");
    return process.env["CI"] ? { ...nothing, failed: 1 } : { ...nothing, skipped: variants.length };
  }
  let total = nothing;
  for (const variant of variants) total = plus(total, await runVariant(program, command, variant));
  return total;
}

if (import.meta.main) {
  const tally = await sanity(await build());
  console.log(tallyLine(tally));
  process.exitCode = tally.failed > 0 ? 1 : 0;
}
