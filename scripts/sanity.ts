import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "./build.ts";
import { startDaemon } from "./daemon.ts";
import { exists } from "./exists.ts";
import { type JunitCase, junitCases } from "./junit.ts";
import { makeSandbox, type Sandbox, type Topology } from "./sandbox.ts";
import { root, spawned } from "./spawned.ts";
import { nothing, plus, type Tally, tallyLine } from "./tally.ts";

const version = "5.4.0";
const binary = `${root}/.cache/csi-sanity-${version}`;
const module = `github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v${version}`;

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

/** Reasons for which the suite itself skips, and why csimux accepts them. Anything else that is skipped is a failure. */
const accepted: readonly (readonly [reason: RegExp, why: string])[] = [
  [/^pending$/, "the suite itself has switched it off"],
  [
    /Controller ?Publish|ControllerUnpublish/,
    "PUBLISH_UNPUBLISH_VOLUME is not offered: nodes reach every volume without it",
  ],
  [/MaxVolumesPerNode|testnodevolumeattachlimit/, "there is no limit of volumes for a node"],
  [/Modify ?Volume not supported/i, "MODIFY_VOLUME is not offered: no driver has mutable parameters"],
  [
    /GroupControllerService not supported|VolumeGroupSnapshots/,
    "the group service is not offered: no driver takes snapshots of several volumes at once",
  ],
];

/** Installs the suite below .cache/ once; undefined when there is no Go to build it with. */
async function suite(): Promise<string | undefined> {
  if (await exists(binary)) return binary;
  const go = (await exists("/usr/local/go/bin/go")) ? "/usr/local/go/bin/go" : "go";
  if ((await spawned([go, "version"])).code !== 0) return undefined;
  const folder = `${root}/.cache/install-${process.pid}`;
  await mkdir(folder, { recursive: true });
  try {
    const result = await spawned([go, "install", module], {
      env: { GOBIN: folder, GOFLAGS: "-mod=mod", GOWORK: "off" },
    });
    if (result.code !== 0) throw new Error(`go install ${module} failed:\n${result.stderr}`);
    await rename(join(folder, "csi-sanity"), binary);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return binary;
}

const reasonOf = ({ message }: JunitCase): string => message.replace(/^skipped - /, "");
const why = (test: JunitCase): string | undefined => accepted.find(([reason]) => reason.test(test.message))?.[1];

function report(cases: readonly JunitCase[]): Tally {
  const specs = cases.filter(({ title }) => title.startsWith("[It]"));
  const skipped = specs.filter(({ outcome }) => outcome === "skipped");
  const failed = cases.filter(({ outcome }) => outcome === "failed");
  const unexpected = skipped.filter(test => why(test) === undefined);
  const passed = specs.filter(({ outcome }) => outcome === "passed").length;
  console.log(`  ${specs.length} specs: ${passed} passed, ${failed.length} failed, ${skipped.length} skipped`);
  for (const test of failed) console.log(`  FAILED  ${test.title}\n          ${test.message}`);
  for (const test of skipped)
    console.log(
      `  skipped ${test.title}\n          ${reasonOf(test)}; ${why(test) ?? "NOT EXPECTED, counts as failed"}`,
    );
  return { passed, failed: failed.length + unexpected.length, skipped: skipped.length - unexpected.length };
}

/**
 * csi-sanity 5.4.0 looks at the state of its connection and then waits for the next change; when the connection becomes ready
 * in between, it waits a minute for nothing and fails its first spec, although every later one is served.
 */
const missedConnection = (cases: readonly JunitCase[]): boolean => {
  const failed = cases.filter(({ outcome }) => outcome === "failed");
  return failed.length === 1 && failed.every(({ message }) => message.includes("Connection timed out"));
};

async function runSuite(program: string, variant: Variant, sandbox: Sandbox, again = true): Promise<Tally> {
  const { folder, socket } = sandbox;
  const parameters = join(folder, "parameters.yaml");
  await writeFile(parameters, JSON.stringify(variant.parameters));
  const result = await spawned([
    program,
    `--csi.endpoint=unix://${socket}`,
    `--csi.mountdir=${folder}/mount`,
    `--csi.stagingdir=${folder}/staging`,
    `--csi.testvolumeparameters=${parameters}`,
    `--csi.testvolumesize=${1024 ** 3}`,
    `--csi.testvolumeexpandsize=${2 * 1024 ** 3}`,
    `--ginkgo.junit-report=${folder}/report.xml`,
    "--ginkgo.no-color",
  ]);
  const xml = await readFile(join(folder, "report.xml"), "utf8").catch(() => "");
  const cases = junitCases(xml);
  if (again && missedConnection(cases)) {
    console.log("  csi-sanity missed that its connection was ready (a race in the suite); running it once more");
    return runSuite(program, variant, sandbox, false);
  }
  const tally = report(cases);
  if (tally.failed === 0 && result.code === 0 && tally.passed > 0) return tally;
  console.log(result.stdout.split("\n").slice(-60).join("\n"), result.stderr);
  return { ...tally, failed: Math.max(tally.failed, 1) };
}

const oneFailure = (message: string): Tally => {
  console.log(`  FAILED  ${message}`);
  return { ...nothing, failed: 1 };
};

async function runAgainstDaemon(program: string, command: string, variant: Variant, sandbox: Sandbox): Promise<Tally> {
  const daemon = await startDaemon({ command: [command], sandbox });
  const tally = await runSuite(program, variant, sandbox).catch(error => oneFailure(String(error)));
  const { code } = await daemon.stop();
  if (code === 0) return tally;
  return plus(tally, oneFailure(`csimux ended with code ${code}:\n${await daemon.log()}`));
}

async function runVariant(program: string, command: string, variant: Variant): Promise<Tally> {
  console.log(`csi-sanity ${version}: ${variant.name}`);
  const sandbox = await makeSandbox(variant.kind);
  const tally = await runAgainstDaemon(program, command, variant, sandbox).catch(error => oneFailure(String(error)));
  const left = await sandbox.remove();
  return left.length === 0 ? tally : plus(tally, oneFailure(`still mounted at the end: ${left.join(", ")}`));
}

/** Runs the CSI conformance suite against the compiled executable, once for each variant. */
export async function sanity(command: string): Promise<Tally> {
  const program = await suite();
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
