import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { spawned } from "../spawned.ts";
import type { Tally } from "../tally.ts";
import { type JunitCase, junitCases } from "../tally.ts";

/** Accepted reasons for which the suite itself skips. Any other skipped spec is a failure. */
const accepted: readonly (readonly [reason: RegExp, why: string])[] = [
  [/^pending$/, "the suite disables it"],
  [
    /Controller ?Publish|ControllerUnpublish/,
    "PUBLISH_UNPUBLISH_VOLUME is not offered: nodes reach every volume without it",
  ],
  [/MaxVolumesPerNode|testnodevolumeattachlimit/, "the number of volumes per node is unlimited"],
  [/SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported/, "this variant has no topology"],
];

/**
 * csi-sanity 5.6.0 compares a received topology with the one that it sent, including their cached sizes,
 * so equal ones always differ. Its output must show no other difference.
 */
function differsInCacheOnly({ title, message }: JunitCase): boolean {
  if (!title.includes("creating a snapshot with accessibility requirements")) return false;
  const [received, wanted] = message.split(/^to equal$/m).map(part =>
    part
      .replace(/^Expected$/m, "")
      .replace(/0x[0-9a-f]+|sizeCache: \d+/g, "")
      .trim(),
  );
  return received !== undefined && received === wanted;
}

const reasonOf = ({ message }: JunitCase): string => message.replace(/^skipped - /, "");
const why = (test: JunitCase): string | undefined => accepted.find(([reason]) => reason.test(test.message))?.[1];

function report(cases: readonly JunitCase[], left: string | undefined): Tally {
  const specs = cases.filter(({ title }) => title.startsWith("[It]") && !(left && new RegExp(left).test(title)));
  const skipped = specs.filter(({ outcome }) => outcome === "skipped");
  const broken = cases.filter(test => test.outcome === "failed" && differsInCacheOnly(test));
  const failed = cases.filter(test => test.outcome === "failed" && !broken.includes(test));
  const unexpected = skipped.filter(test => why(test) === undefined);
  const passed = specs.filter(({ outcome }) => outcome === "passed").length;
  console.log(
    `  ${specs.length} specs: ${passed} passed, ${failed.length} failed, ${skipped.length + broken.length} skipped`,
  );
  for (const test of failed) console.log(`  FAILED  ${test.title}\n          ${test.message}`);
  for (const test of broken)
    console.log(`  skipped ${test.title}\n          the suite compares cached sizes, which is a bug of the suite`);
  for (const test of skipped)
    console.log(
      `  skipped ${test.title}\n          ${reasonOf(test)}; ${why(test) ?? "NOT EXPECTED, counts as failed"}`,
    );
  const skips = skipped.length - unexpected.length + broken.length;
  return { passed, failed: failed.length + unexpected.length, skipped: skips };
}

/**
 * csi-sanity 5.4.0 reads the state of its connection and then waits for the next change; if the connection becomes ready
 * in between, it waits a minute and fails its first spec, although every later one is served.
 */
const missedConnection = (cases: readonly JunitCase[]): boolean => {
  const failed = cases.filter(({ outcome }) => outcome === "failed");
  return failed.length === 1 && failed.every(({ message }) => message.includes("Connection timed out"));
};

/** The settings of a run of csi-sanity. */
export interface SanityRun {
  /** The path of csi-sanity. */
  readonly program: string;
  /** csimux's socket. */
  readonly socket: string;
  /** A folder for the suite's mounts and report. */
  readonly folder: string;
  /** Parameters of every CreateVolume. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Secrets by the suite's names for them (csi-sanity, --csi.secrets). */
  readonly secrets?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Specs to skip, as a regular expression on titles: only what the machine cannot do, never what fails. */
  readonly leave?: string;
  /** The time limit in milliseconds; ten minutes if absent. */
  readonly timeoutMs?: number;
}

/** Runs csi-sanity once and prints every failed and skipped spec. One skipped without an accepted reason counts as failed. */
export async function runSanity(run: SanityRun, again = true): Promise<Tally> {
  const { program, folder, socket, leave, timeoutMs } = run;
  const parameters = join(folder, "parameters.yaml");
  await writeFile(parameters, JSON.stringify(run.parameters));
  const secrets = join(folder, "secrets.yaml");
  if (run.secrets) await writeFile(secrets, JSON.stringify(run.secrets));
  const suite = [
    program,
    `--csi.endpoint=unix://${socket}`,
    `--csi.mountdir=${folder}/mount`,
    `--csi.stagingdir=${folder}/staging`,
    `--csi.testvolumeparameters=${parameters}`,
    `--csi.testvolumesize=${1024 ** 3}`,
    `--csi.testvolumeexpandsize=${2 * 1024 ** 3}`,
    `--ginkgo.junit-report=${folder}/report.xml`,
    "--ginkgo.no-color",
    ...(run.secrets ? [`--csi.secrets=${secrets}`] : []),
    ...(leave === undefined ? [] : [`--ginkgo.skip=${leave}`]),
  ] as const;
  const result = await spawned(suite, timeoutMs === undefined ? {} : { timeoutMs });
  const xml = await readFile(join(folder, "report.xml"), "utf8").catch(() => "");
  const cases = junitCases(xml);
  if (again && missedConnection(cases)) {
    console.log("  csi-sanity missed that its connection was ready (a race in the suite); running it again");
    return runSanity(run, false);
  }
  const tally = report(cases, leave);
  const explained = result.code === 0 || cases.some(test => test.outcome === "failed");
  if (tally.failed === 0 && explained && tally.passed > 0) return tally;
  console.log(result.stdout.split("\n").slice(-60).join("\n"), result.stderr);
  return { ...tally, failed: Math.max(tally.failed, 1) };
}
