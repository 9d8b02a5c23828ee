import { afterAll, describe, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Command } from "commander";
import type { Host } from "../../cmd/host.ts";
import { addValidate } from "../../cmd/validate/command.ts";
import { online } from "../../cmd/validate/online.ts";
import { modules } from "../../lib/drivers/index.ts";
import { gather } from "../../lib/lint/gather.ts";
import { rules } from "../../lib/lint/rules/index.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "csimux-validate-"));
  folders.push(folder);
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return folder;
}

const fakeHost = (out: string[], err: string[], stdin = "", env = {}): Host => ({
  out: text => void out.push(text),
  err: text => void err.push(text),
  stdin: async () => stdin,
  env,
  hostname: "here",
  ...{ colour: false, pause: async () => {} },
});

/** Runs the command as commander would; returns exit code and output. */
async function run(args: readonly string[], stdin = "", env = {}) {
  const out: string[] = [];
  const err: string[] = [];
  const program = new Command().exitOverride().configureOutput({ writeErr: text => void err.push(text) });
  addValidate(program, fakeHost(out, err, stdin, env));
  const before = process.exitCode;
  process.exitCode = 0;
  await program.parseAsync(["node", "csimux", "validate", ...args]);
  const code = process.exitCode;
  process.exitCode = before ?? 0;
  return { code, out: out.join(""), err: err.join("") };
}

const nfs = "driver: nfs-client\nnfs:\n  shareHost: a\n  shareBasePath: /a\n  controllerBasePath: /b\n";
const main = "driver: proxy\nproxy:\n  configFolder: connections\n";

describe("csimux validate", () => {
  test.each([
    ["by a relative path", "conns", "driver: proxy\nproxy:\n  configFolder: conns\n"],
    ["by its name in the container", "/etc/csimux/conns", "driver: proxy\nproxy:\n  configFolder: /etc/csimux/conns\n"],
    ["and the file names another", "./conns", "driver: proxy\nproxy:\n  configFolder: elsewhere\n"],
    ["and the file names none", "conns", "driver: proxy\n"],
  ])(
    "finds a second proxy among the connections, where the main file names the folder %s",
    async (_how, name, text) => {
      const main = `driver: proxy\nproxy:\n  configFolder: ${name}\n`;
      const folder = folderOf({ "proxy.yaml": main, "conns/nas.yaml": nfs, "conns/p.yaml": text });
      const { code, out } = await run([join(folder, "proxy.yaml"), join(folder, "conns")]);
      expect([code, out]).toEqual([1, expect.stringMatching(/conns\/p\.yaml:1:1: error/)]);
    },
  );

  test("prints only a summary if everything is valid, and exits 0", async () => {
    const folder = folderOf({ "proxy.yaml": main, "connections/one.yaml": nfs });
    expect(await run(["--config", join(folder, "proxy.yaml")])).toEqual({
      code: 0,
      out: "no problems in 2 files\n",
      err: "",
    });
  });

  test("reads the connection folder next to the main file, and nothing else in it", async () => {
    const folder = folderOf({
      "proxy.yaml": main,
      "connections/one.yaml": "colour: red\n",
      "connections/note.txt": "x",
      "connections/.hidden.yaml": "x",
    });
    const { code, out } = await run(["--config", join(folder, "proxy.yaml"), "--format", "json"]);
    expect(code).toBe(1);
    expect(JSON.parse(out).diagnostics.map(({ rule }: { rule: string }) => rule)).toEqual(["missing-key"]);
  });

  test("says when the connection folder is not on this machine", async () => {
    const folder = folderOf({ "proxy.yaml": main.replace("connections", "/no/such/folder") });
    const config = join(folder, "proxy.yaml");
    const { code, err } = await run(["--config", config]);
    expect(code).toBe(2);
    expect(err).toContain("no connection was checked: the folder /no/such/folder is not on this machine");
    const named = folderOf({ "one.yaml": nfs });
    expect(await run(["--config", config, named])).toMatchObject({ code: 0, err: "" });
  });

  test("checks the connection folder of the main file in addition to the named files; a named file replaces its namesake", async () => {
    const folder = folderOf({
      "proxy.yaml": main,
      "connections/nas.yaml": nfs,
      "connections/other.yaml": "driver: nfs-clint\n",
      "class.yaml":
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: a }\nprovisioner: a.example\nparameters: { connection: nsa }\n",
      "new/nas.yaml": nfs.replace("shareHost: a", "shareHost: b"),
    });
    const config = ["--config", join(folder, "proxy.yaml"), "-o", "json"];
    const rules = async (...args: readonly string[]) =>
      JSON.parse((await run([...config, ...args])).out).diagnostics.map(({ rule }: { rule: string }) => rule);
    expect(await rules(join(folder, "class.yaml"))).toEqual(["unknown-driver", "class-connection-missing"]);
    expect(await rules(join(folder, "new/nas.yaml"))).toEqual(["unknown-driver"]);
  });

  test("reads a connection from standard input, under a name that can be given", async () => {
    expect(await run(["-"], nfs)).toEqual({ code: 0, out: "no problems in 1 file\n", err: "" });
    expect((await run(["-", "--name", "a b"], nfs)).out).toContain('"a b" is not a valid connection name');
  });

  test("takes a main file of one driver for the only connection, and says what changes", async () => {
    const folder = folderOf({ "driver-config-file.yaml": `${nfs}node: { mount: { mount_flags: noatime } }\n` });
    const config = join(folder, "driver-config-file.yaml");
    const { code, out } = await run(["--config", config]);
    expect(code).toBe(0);
    expect(out).toStartWith(
      `no problems in 1 file\n${config} configures one driver, nfs-client; csimux serves it unchanged:\n`,
    );
    expect(out).toContain("volumes and snapshots keep their ids");
    const wrong = folderOf({ "main.yaml": nfs.replace("shareHost", "shareHots") });
    expect((await run(["--config", join(wrong, "main.yaml")])).out).toContain('did you mean "shareHost"?');
  });

  test("says which files of the connection folder the daemon passes over for their names", async () => {
    const folder = folderOf({
      "proxy.yaml": main,
      "connections/a.json": JSON.stringify({ driver: "nfs-client" }),
      "connections/b.YAML": nfs,
      "connections/c.yaml": nfs.replace("/a", "/c"),
      "connections/notes.json": "{}",
    });
    const { out } = await run(["--config", join(folder, "proxy.yaml"), "-o", "json"]);
    const found = JSON.parse(out).diagnostics.filter(({ rule }: { rule: string }) => rule === "file-not-read");
    expect(found.map(({ fix }: { fix: string }) => fix)).toEqual(['rename it to "a.yaml"', 'rename it to "b.yaml"']);
  });

  test("walks folders, passes over files of others, and does not follow links in circles", async () => {
    const folder = folderOf({
      "a/one.yaml": nfs,
      "deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\n",
      "chart/templates/x.yaml": "{{ if }}",
      "list.json": "[1]",
    });
    symlinkSync(folder, join(folder, "a", "again"));
    expect(await run([folder])).toEqual({ code: 0, out: "no problems in 1 file\n", err: "" });
  });

  test("exits 2 for what cannot be checked, and names it; ignores such links in folders and globs", async () => {
    const folder = folderOf({ "one.yaml": nfs });
    symlinkSync("loop.yaml", join(folder, "loop.yaml"));
    symlinkSync("nowhere.yaml", join(folder, "dangling.yaml"));
    const loop = join(folder, "loop.yaml");
    expect(await run([loop])).toEqual({ code: 2, out: "", err: `csimux: ${loop}: cannot be read (ELOOP)\n` });
    const below = join(folder, "one.yaml", "x");
    expect(await run([below])).toEqual({ code: 2, out: "", err: `csimux: ${below}: cannot be read (ENOTDIR)\n` });
    expect((await run([folder])).out).toBe("no problems in 1 file\n");
    expect((await run([join(folder, "*.yaml")])).out).toBe("no problems in 1 file\n");
  });

  test("says that a file is not UTF-8, also in a folder, and prints none of it", async () => {
    const folder = folderOf({});
    writeFileSync(join(folder, "a.yaml"), Buffer.from(`\ufeff${nfs}`, "utf16le"));
    writeFileSync(join(folder, "b.yaml"), Buffer.from(nfs.replace("shareHost: a", 'shareHost: "b\xfcro"'), "latin1"));
    const { code, out } = await run([folder]);
    expect(code).toBe(1);
    expect(out).toContain("a.yaml:1:1: error: this is not UTF-8 text");
    expect(out).toContain("b.yaml:3:16: error: this is not UTF-8 text");
    expect(out).toContain("shareHost: ***");
  });

  test("reads a file once, however it is written", async () => {
    const folder = folderOf({ "proxy.yaml": main, "connections/one.yaml": nfs });
    const again = ["/./", "//", "/connections/../"].map(each => `${folder}${each}proxy.yaml`);
    expect((await run(["--config", join(folder, "proxy.yaml"), ...again, folder])).out).toBe(
      "no problems in 2 files\n",
    );
  });

  test("reads a main file that comes through a pipe, and then its folder", async () => {
    const folder = folderOf({ "connections/one.yaml": nfs });
    const text = main.replace("connections", join(folder, "connections"));
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const writer = spawn("tee", [pipe], { stdio: ["pipe", "ignore", "ignore"] });
    writer.stdin.end(text);
    expect(await run(["--config", pipe])).toEqual({ code: 0, out: "no problems in 2 files\n", err: "" });
  });

  test("checks several deployments of one folder apart, each with its own main file", async () => {
    const group = "  groups: { all: { members: [one] } }\n";
    const folder = folderOf({
      "a/proxy.yaml": main + group,
      "a/one.yaml": nfs,
      "b/proxy.yaml": main,
      "b/one.yaml": nfs,
      "b/c.yaml": "driver: x\n",
    });
    const { out } = await run([folder, "--format", "json"]);
    expect(
      JSON.parse(out).diagnostics.map(({ file, rule }: { file: string; rule: string }) => `${file} ${rule}`),
    ).toEqual([`${folder}/b/c.yaml unknown-driver`]);
  });

  test("takes globs that the shell did not expand", async () => {
    const folder = folderOf({ "one.yaml": nfs, "two.yaml": nfs.replace("/a", "c") });
    const { code, out } = await run([join(folder, "*.yaml")]);
    expect(code).toBe(1);
    expect(out).toContain("1 error, 0 warnings in 2 files");
  });

  test("reads a Secret from standard input", async () => {
    const secret = `apiVersion: v1\nkind: Secret\ndata:\n  one.yaml: ${Buffer.from("driver: nfs-client\n").toString("base64")}\n`;
    const { code, out } = await run(["-"], secret);
    expect(code).toBe(1);
    expect(out).toStartWith("-:4:3: error: nfs: one.yaml:1:1: required key");
  });

  test.each([
    [["/no/such/file.yaml"], "no such file"],
    [["/no/such/*.yaml"], "no file matches"],
    [["--config", "/no/such/proxy.yaml"], "cannot be read (ENOENT)"],
    [[], "nothing to check"],

    [["--format", "xml", "x"], "--output is one of"],
    [["-o", "xml", "x"], "--output is one of"],
  ])("exits 2 for %p", async (args, message) => {
    const { code, err, out } = await run(args);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain(message);
  });

  test("exits 2 for a folder without anything of csimux, and passes over templates of charts", async () => {
    const folder = folderOf({
      "a.yaml": "colour: red\n",
      "templates/class.yaml": "apiVersion: v1\nkind: StorageClass\n{{ if x }}\n{{ end }}\n",
    });
    const { code, out, err } = await run([folder]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain("none of the 2 files");
  });

  test("says errors first, whatever the order of the files", async () => {
    const folder = folderOf({ "a.yaml": `${nfs}instance_id: 7\n`, "b.yaml": `${nfs}colour: red\n` });
    const { out } = await run([folder]);
    const severities = out.split("\n").flatMap(line => /: (error|warning): /.exec(line)?.[1] ?? []);
    expect(severities).toEqual(["error", "error", "warning"]);
  });

  test.each([
    ["warnings alone", "instance_id: 7\n", [], 0],
    ["warnings with --strict", "instance_id: 7\n", ["--strict"], 1],
    ["an error", "colour: red\n", [], 1],
    ["nothing", "", [], 0],
  ])("says the same in every form: %s", async (_what, more, flags, code) => {
    const file = join(folderOf({ "one.yaml": nfs + more }), "one.yaml");
    const form = (format: string) => run([file, "-o", format, ...flags]);
    const [log] = JSON.parse((await form("sarif")).out).runs;
    const levels = log.results.map(({ level }: { level: string }) => level);
    expect(log.invocations).toMatchObject([{ executionSuccessful: true, exitCode: code }]);
    expect(levels.includes("error")).toBe(code === 1);
    expect((await form("junit")).out).toContain(`failures="${code}"`);
    expect((await form("github")).out.includes("::error ")).toBe(code === 1);
    expect((await form("text")).code).toBe(code);
  });

  test("with --strict fails for warnings, with --quiet prints errors only", async () => {
    const file = join(folderOf({ "one.yaml": `${nfs}instance_id: 7\n` }), "one.yaml");
    expect((await run([file])).code).toBe(0);
    expect((await run([file, "--strict"])).code).toBe(1);
    expect(await run([file, "--quiet"])).toEqual({ code: 0, out: "", err: "" });
  });

  test("refuses a file of many megabytes without reading all of it", async () => {
    const file = join(folderOf({ "one.yaml": nfs + " ".repeat(6 << 20) }), "one.yaml");
    expect((await run([file])).out).toContain("[yaml-too-large]");
  });

  test("lists its rules as text and as JSON", async () => {
    const { code, out } = await run(["--list-rules"]);
    expect(code).toBe(0);
    for (const { id } of rules) expect(out).toContain(`${id} (`);
    const listed = JSON.parse((await run(["--list-rules", "--format", "json"])).out);
    expect(listed.rules.length).toBe(rules.length);
  });

  test("does not need the environment of the cluster, unless it connects", async () => {
    const file = join(folderOf({ "one.yaml": nfs.replace("shareHost: a", "shareHost: ${env:NAS}") }), "one.yaml");
    expect((await run([file])).code).toBe(0);
    expect((await run([file], "", { NAS: "a" })).code).toBe(0);
  });

  test("with --online asks the real driver: a folder that is missing is a problem of its file", async () => {
    const folder = folderOf({});
    const text = `driver: local-hostpath\nlocal-hostpath:\n  shareBasePath: ${folder}/v\n  controllerBasePath: ${folder}/missing\n`;
    const file = join(folderOf({ "one.yaml": text }), "one.yaml");
    const { code, out } = await run([file, "--online", "--format", "json"]);
    expect(code).toBe(1);
    expect(JSON.parse(out).diagnostics).toMatchObject([{ file, line: 1, column: 1, rule: "connection-check" }]);
  });
});

describe("asking the storage systems", () => {
  const names = Array.from({ length: 20 }, (_, index) => `c${index}`);
  const [gathered] = gather(
    names.map(name => ({
      file: `${name}.yaml`,
      text: nfs.replace("shareHost: a", `shareHost: ${name}`),
      role: "connection" as const,
    })),
    {
      modules,
      resolver: { env: () => undefined, file: () => undefined },
      compile: () => ({ groups: 0, match: () => undefined, finds: () => false }),
    },
  );
  if (!gathered) throw new Error("nothing was read");
  const { input } = gathered;

  test("runs a few at a time, and reports every failure", async () => {
    let running = 0;
    let most = 0;
    const { problems } = await online(input, fakeHost([], []), async ({ name }) => {
      running++;
      most = Math.max(most, running);
      await new Promise(resolve => setImmediate(resolve));
      running--;
      if (name === "c3" || name === "c7") throw new Error("refused");
    });
    expect(most).toBe(8);
    expect(problems.map(({ file, message }) => `${file} ${message}`)).toEqual([
      'c3.yaml connection "c3": refused',
      'c7.yaml connection "c7": refused',
    ]);
  });

  test("ends for a system that does not answer", async () => {
    const one = { ...input, connections: input.connections.slice(0, 1) };
    const { problems } = await online(one, fakeHost([], []), () => new Promise(() => {}), 20);
    expect(problems.map(({ message }) => message)).toEqual(['connection "c0": no answer within 0.02 s']);
  });
});
