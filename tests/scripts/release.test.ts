import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { goProgram, hasGoProgram } from "../../scripts/cluster/tools.ts";
import { packPlugin } from "../../scripts/release/krew.ts";
import { packChart, type Run } from "../../scripts/release/publish.ts";
import { currentVersion, sectionOf, versionedFiles, withSection, withVersion } from "../../scripts/release/version.ts";
import { root, spawned } from "../../scripts/spawned.ts";

const read = (path: string): string => readFileSync(join(root, path), "utf8");
const version = await currentVersion();

test("a new version reaches every file that names csimux's version, and no other version", async () => {
  const files = versionedFiles();
  const texts = files.map(path => [path, read(path), withVersion(path, read(path), version, "7.8.9")] as const);
  const changed = texts.filter(([, before, after]) => before !== after).map(([path]) => path);
  expect(changed).toEqual(
    expect.arrayContaining([
      ...["package.json", "package-lock.json", "examples/helm/csimux/Chart.yaml", "examples/helm-values.yaml"],
      ...["examples/guide/migrate.md", "examples/kubernetes/central/kustomization.yaml"],
    ]),
  );
  // Other numbers, such as the network 10.0.1.0 and 0.15.1 of a chart, stay.
  const left = texts.filter(([path, , after]) => path.startsWith("examples") && /(?<![\d.])0\.1\.0(?!\d)/.test(after));
  expect(version === "0.1.0" ? left.map(([path]) => path) : []).toEqual([]);
  const lock = withVersion("package-lock.json", read("package-lock.json"), version, "7.8.9");
  expect(lock.match(/"version": "7\.8\.9"/g)).toHaveLength(2);
  for (const [path, , after] of texts) expect(withVersion(path, after, "7.8.9", version)).toBe(read(path));
});

test("image tags in the examples are the version", async () => {
  const tags = versionedFiles().flatMap(path => [
    ...read(path).matchAll(/(?:newTag: |tag: "|registry\.example\.org\/csimux:|^(?:appV|v)ersion: )(\d[\w.-]*)/gm),
  ]);
  expect(tags.length).toBeGreaterThan(7);
  expect(new Set(tags.map(([, tag]) => tag))).toEqual(new Set([version]));
});

test("the changelog gets a section, once, which becomes the notes", () => {
  const before = "# Changelog\n\n## Unreleased\n\n### A\n\n- one\n\n## 1.0.0 - 2026-01-01\n\n- zero\n";
  const after = withSection(before, "1.1.0", "2026-02-02");
  expect(after).toContain("## Unreleased\n\n## 1.1.0 - 2026-02-02\n\n### A\n");
  expect(sectionOf(after, "1.1.0")).toBe("### A\n\n- one");
  expect(sectionOf(after, "1.0.0")).toBe("- zero");
  expect(sectionOf(before, "1.1.0")).toBeUndefined();
  expect(() => withSection(after, "1.1.0", "2026-02-03")).toThrow("already has a section 1.1.0");
  expect(withSection(read("CHANGELOG.md"), "7.8.9", "2026-02-03")).toContain("## 7.8.9 - 2026-02-03\n");
});

test("make release packs the plugin with its licence, and krew's manifest names that archive and its checksum", async () => {
  const folder = mkdtempSync(join(tmpdir(), "csimux-krew-"));
  try {
    const run: Run = async (...argv) => {
      const { code, stdout } = await spawned(argv);
      expect([argv[0], code]).toEqual([argv[0], 0]);
      return stdout;
    };
    writeFileSync(join(folder, "csimux-linux-amd64"), "#!/bin/sh\necho here\n", { mode: 0o755 });
    await packPlugin("ghcr.io/owner/csimux", "1.2.3", folder, ["amd64"], run);
    const archive = join(folder, "kubectl-csimux-linux-amd64.tar.gz");
    expect((await run("tar", "-tf", archive)).split("\n")).toEqual(["LICENSE", "kubectl-csimux", ""]);
    const [sum = ""] = (await run("sha256sum", archive)).split(" ");
    expect(parse(readFileSync(join(folder, "csimux.yaml"), "utf8"))).toMatchObject({
      kind: "Plugin",
      metadata: { name: "csimux" },
      spec: {
        version: "v1.2.3",
        platforms: [
          {
            selector: { matchLabels: { os: "linux", arch: "amd64" } },
            uri: "https://github.com/owner/csimux/releases/download/v1.2.3/kubectl-csimux-linux-amd64.tar.gz",
            sha256: sum,
            bin: "kubectl-csimux",
          },
        ],
      },
    });
    // The address of archives in another registry is unknown.
    await packPlugin("registry.example.org/csimux", "1.2.4", folder, ["amd64"], run);
    expect(readFileSync(join(folder, "csimux.yaml"), "utf8")).toContain("v1.2.3");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.skipIf(!hasGoProgram("helm"))(
  "the chart of a release names its repository, and its README links to files of that version",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "csimux-chart-test-"));
    try {
      const run: Run = async (...argv) => {
        const { code, stdout } = await spawned(argv);
        expect([argv[0], code]).toEqual([argv[0], 0]);
        return stdout;
      };
      await packChart("ghcr.io/owner/csimux", folder, run);
      const chart = join(folder, `csimux-${version}.tgz`);
      const home = "https://github.com/owner/csimux";
      expect(parse(await run(goProgram("helm"), "show", "chart", chart))).toMatchObject({ home, sources: [home] });
      const targets = [...(await run(goProgram("helm"), "show", "readme", chart)).matchAll(/\]\(([^)#]+)/g)].map(
        ([, to = ""]) => to,
      );
      const base = `${home}/blob/v${version}/`;
      expect(targets.length).toBeGreaterThan(3);
      expect(targets.filter(to => !to.startsWith(base) || !existsSync(join(root, to.slice(base.length))))).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

const workflows = readdirSync(join(root, ".github/workflows")).map(name => `.github/workflows/${name}`);

test.skipIf(!hasGoProgram("actionlint"))("actionlint finds nothing in the workflows", async () => {
  expect(workflows).toHaveLength(3);
  const { code, stdout, stderr } = await spawned([goProgram("actionlint"), ...workflows]);
  expect([code, stdout, stderr]).toEqual([0, "", ""]);
});

test("actions are named by commit, and no job that may write runs anything of the checkout", () => {
  const texts = workflows.map(read);
  const uses = texts.flatMap(text => [...text.matchAll(/uses: (.+)/g)].map(([, action = ""]) => action));
  expect(uses.filter(action => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
  const jobs = texts.flatMap(text => text.split(/^ {2}(?=[a-z-]+:$)/m).slice(1));
  const writing = jobs.filter(job => /: write$/m.test(job));
  expect(writing).toHaveLength(1);
  expect(writing.filter(job => /checkout@|setup-|\b(?:make|npm) /.test(job))).toEqual([]);
});

test("the workflows run only targets of the Makefile, and files that exist", () => {
  const targets = new Set([...read("Makefile").matchAll(/^([a-z-]+):/gm)].map(([, name]) => name));
  const run = workflows.flatMap(path => [...read(path).matchAll(/\bmake ([a-z-]+)/g)].map(([, name]) => name));
  expect(new Set(run)).toEqual(
    new Set(["check", "test", "image", "release", "test-all", "test-lab", "test-cluster", "test-nomad"]),
  );
  expect(run.filter(name => !targets.has(name))).toEqual([]);
  const links = [...read(".github/SECURITY.md").matchAll(/\]\(([^)]+)\)/g)].map(([, path = ""]) => path);
  expect(links.filter(path => !existsSync(join(root, ".github", path)))).toEqual([]);
});
