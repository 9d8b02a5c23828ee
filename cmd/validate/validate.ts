import { modules } from "../../lib/drivers/index.ts";
import { github } from "../../lib/lint/format/github.ts";
import { json } from "../../lib/lint/format/json.ts";
import { junit } from "../../lib/lint/format/junit.ts";
import { sarif } from "../../lib/lint/format/sarif.ts";
import { paint, problemText, summary } from "../../lib/lint/format/text.ts";
import type { Input } from "../../lib/lint/input.ts";
import { type Linted, type LintProblem, lint } from "../../lib/lint/lint.ts";
import type { LintInput } from "../../lib/lint/lint-input.ts";
import { rules } from "../../lib/lint/rules/index.ts";
import { type Host, valueResolver } from "../host.ts";
import { version } from "../version.ts";
import { copyData, copyNotes } from "./copies.ts";
import { InputError, type Inputs, readInputs } from "./files.ts";
import type { OnlineResult } from "./online.ts";
import type { Format, ValidateOptions } from "./options.ts";

/** Checks everything in one run. Returns the exit code: 0: no problems; 1: problems; 2: something could not be checked. */
export async function validate(options: ValidateOptions, host: Host): Promise<number> {
  let read: Inputs;
  try {
    read = await readInputs(options, host);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    host.err(`csimux: ${error.message}\n`);
    return 2;
  }
  const { all: inputs, missingFolder } = read;
  if (inputs.length === 0) {
    host.err("csimux: nothing to check; name files or folders, or the main file with --config\n");
    return 2;
  }
  const linted = await linting(inputs, options, host);
  if (linted.files.length === 0) {
    const text = `csimux: none of the ${inputs.length} files concerns csimux: found no configuration, class or Secret of connection files\n`;
    host.err(text);
    return 2;
  }
  const asked = options.online ? await askAll(linted.deployments, host) : [];
  const all = [...linted.problems, ...asked.flatMap(({ problems }) => problems)];
  const shown = options.quiet ? all.filter(({ severity }) => severity === "error") : all;
  const failing = options.strict ? all : all.filter(({ severity }) => severity === "error");
  const without = linted.deployments.every(({ connections }) => connections.length === 0);
  const folder = missingFolder === undefined || !without ? [] : [absentFolder(missingFolder)];
  const unseen = [...folder, ...linted.unseen, ...asked.flatMap(each => each.unseen)];
  const code = failing.length > 0 ? 1 : unseen.length > 0 ? 2 : 0;
  const copies = options.format === "json" ? linted.deployments.flatMap(copyData) : [];
  host.out(printed(shown, options, { files: linted.files, unseen, code, copies }, host.colour));
  if (options.format === "text" && !options.quiet)
    for (const each of linted.deployments) host.out(changes(each, all) + copyNotes(each));
  for (const each of unseen) host.err(`csimux: ${each}\n`);
  return code;
}

const absentFolder = (folder: string): string =>
  `no connection was checked: the folder ${folder} is not on this machine; name the connection files`;

async function askAll(deployments: Linted["deployments"], host: Host): Promise<readonly OnlineResult[]> {
  const { online } = await import("./online.ts");
  const all: OnlineResult[] = [];
  for (const each of deployments) all.push(await online(each, host));
  return all;
}

async function linting(inputs: readonly Input[], { online }: ValidateOptions, host: Host): Promise<Linted> {
  return lint(inputs, { modules, resolver: valueResolver(host.env), checkEnvironment: online === true });
}

function printed(
  problems: readonly LintProblem[],
  { format, quiet, strict }: ValidateOptions,
  seen: Parameters<typeof json>[1] & { readonly code: number },
  colour: boolean,
): string {
  if (format === "json") return json(problems, seen);
  // Services that read these formats see everything that fails the command as an error.
  const judged = strict ? problems.map(each => ({ ...each, severity: "error" as const })) : problems;
  if (format === "sarif") return sarif(judged, rules, version, seen.code);
  if (format === "github") return github(judged);
  if (format === "junit") return junit(judged, seen.files);
  const text = errorsFirst(problems)
    .map(problem => problemText(problem, paint(colour)))
    .join("");
  return quiet && problems.length === 0 ? "" : text + summary(problems, seen.files.length);
}

/** Differences to democratic-csi for a main file of a single driver; empty for others, and for one that csimux refuses. */
function changes({ main, connections }: LintInput, problems: readonly LintProblem[]): string {
  const { single } = main?.read.config ?? {};
  const driver = connections.find(({ name }) => name === single)?.driver;
  if (main === undefined || single === undefined || driver === undefined) return "";
  if (problems.some(({ severity }) => severity === "error")) return "";
  const isIgnored = problems.some(({ rule }) => rule === "ignored-key");
  return [
    `${main.document.file} configures one driver, ${driver}; csimux serves it unchanged:`,
    "  - volumes and snapshots keep their ids, and new ones get ids of the same form, without a prefix",
    '  - classes stay as they are; none needs the parameter "connection"',
    ...(isIgnored ? ["  - the warnings [ignored-key] above name keys that have no effect"] : []),
    `  - for more connections later: this file becomes <folder>/${single}.yaml next to others, and a main file says "driver: proxy",`,
    `    "proxy.configFolder: <folder>" and "proxy.legacyConnection: ${single}"; classes then name their connection`,
    "",
  ].join("\n");
}

const errorsFirst = (problems: readonly LintProblem[]): readonly LintProblem[] => [
  ...problems.filter(({ severity }) => severity === "error"),
  ...problems.filter(({ severity }) => severity !== "error"),
];

/** Prints all rules, as text or as JSON. */
export function listRules(format: Format, host: Host): number {
  if (format === "json") {
    const list = rules.map(({ id, severity, title, why }) => ({ id, severity, title, why }));
    host.out(`${JSON.stringify({ rules: list }, undefined, 2)}\n`);
    return 0;
  }
  const { error, warning, strong } = paint(host.colour);
  for (const { id, severity, title, why } of rules)
    host.out(`${strong(id)} (${severity === "error" ? error(severity) : warning(severity)}): ${title}\n    ${why}\n`);
  return 0;
}
