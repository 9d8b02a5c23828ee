/**
 * Makes lib/csi/gen from proto/ with buf and protoc-gen-es, both from node_modules; needs no network.
 * With `--check` nothing in the tree is touched: the exit code is 1 when the committed code is not what proto/ yields.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

const root = join(import.meta.dirname, "..");
const target = join(root, "lib", "csi", "gen");

/** Runs buf with its output below `folder`; throws when buf cannot be started or reports an error. */
function generateInto(folder: string): void {
  const bin = join(root, "node_modules", ".bin");
  const template = join(root, "proto", "buf.gen.yaml");
  const args = ["generate", join(root, "proto"), "--template", template, "--output", folder];
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"] ?? ""}` };
  const { status, error } = spawnSync(join(bin, "buf"), args, { stdio: "inherit", env, timeout: 60_000 });
  if (error) throw new Error(`cannot run buf (has "npm ci" been run?): ${error.message}`);
  if (status !== 0) throw new Error(`buf ended with status ${status}`);
}

/** All files below a folder with their text, by relative path; empty when the folder does not exist. */
function contents(folder: string): Map<string, string> {
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  } catch {
    return new Map();
  }
  const files = names.filter(name => name.endsWith(".ts")).sort();
  return new Map(files.map(name => [name, readFileSync(join(folder, name), "utf8")]));
}

/** The files in which the committed code differs from what was generated now. */
function differences(generated: string): string[] {
  const want = contents(generated);
  const have = contents(target);
  const names = new Set([...want.keys(), ...have.keys()]);
  return [...names].filter(name => want.get(name) !== have.get(name));
}

function check(generated: string): number {
  const stale = differences(generated);
  for (const name of stale) process.stderr.write(`lib/csi/gen/${name} is not what proto/ generates\n`);
  if (stale.length > 0) process.stderr.write('Run "npm run generate" and commit the result.\n');
  return stale.length > 0 ? 1 : 0;
}

function replace(generated: string): number {
  rmSync(target, { recursive: true, force: true });
  cpSync(generated, target, { recursive: true });
  return 0;
}

function main(): number {
  const output = mkdtempSync(join(tmpdir(), "csimux-generate-"));
  try {
    generateInto(output);
    const generated = join(output, "gen");
    return process.argv.includes("--check") ? check(generated) : replace(generated);
  } finally {
    rmSync(output, { recursive: true, force: true });
  }
}

process.exitCode = main();
