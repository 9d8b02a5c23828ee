import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { jsonLine, leveledLog } from "../lib/core/log.ts";
import { below } from "../scripts/check/below.ts";
import { root } from "../scripts/spawned.ts";

const page = (name: string): string => readFileSync(join(root, "examples", name), "utf8");
const pages = below(join(root, "examples/guide"), "files only")
  .filter(name => name !== "rules.md" && name !== "reference.md")
  .map(name => `guide/${name}`);
const storages = pages.filter(name => name.startsWith("guide/storage/"));

/** The end of a storage system's page, which lists messages. */
const wrong = "## When something is wrong\n";

/** A source text with "…" for each interpolation of a template. */
function withoutValues(source: string): string {
  let text = "";
  for (let at = 0; at < source.length; at++) {
    if (source[at] !== "$" || source[at + 1] !== "{") {
      text += source[at];
      continue;
    }
    let depth = 1;
    for (at += 2; depth > 0 && at < source.length; at++) depth += source[at] === "{" ? 1 : source[at] === "}" ? -1 : 0;
    at--;
    text += "…";
  }
  return text;
}

const sources = ["lib", "cmd"].flatMap(folder =>
  below(join(root, folder))
    .filter(name => /\.(?:ts|sh)$/.test(name) && !name.includes("gen/"))
    .map(name => withoutValues(readFileSync(join(root, folder, name), "utf8"))),
);

/** The messages of the pages: the code spans at the start of its entries. */
const messages = [
  page("guide/troubleshoot.md"),
  page("guide/copies.md"),
  ...storages.map(name => page(name).split(wrong)[1] ?? ""),
]
  .join("\n")
  .replace(/\n {2,}/g, " ")
  .split("\n")
  .filter(line => line.startsWith("- `"))
  .flatMap(line =>
    [...(/^- ((?:`[^`]+`(?:, | and )?)+)/.exec(line)?.[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text),
  );

test("the troubleshooting page has many messages", () => {
  expect(messages.length).toBeGreaterThan(45);
});

test.each(messages)("csimux writes the message %s, word for word", message => {
  expect(sources.some(source => source.includes(message))).toBe(true);
});

const others = ["../README.md", "README.md", "kubernetes/README.md", "monitoring/README.md"];

test.each([...pages, ...others])("every link of %s leads to an existing file and heading", name => {
  const links = [...page(name).matchAll(/\]\(([^)#]*)(#[^)]*)?\)/g)].map(
    ([, path = "", anchor = ""]) => [path, anchor] as const,
  );
  for (const [path, anchor] of links.filter(([each]) => !each.startsWith("https://"))) {
    const file = join(root, "examples", path === "" ? name : join(dirname(name), path));
    expect(existsSync(file)).toBe(true);
    if (anchor === "") continue;
    const headings = readFileSync(file, "utf8")
      .split("\n")
      .filter(line => line.startsWith("#"))
      .map(
        line =>
          `#${line
            .replace(/^#+ /, "")
            .toLowerCase()
            .replace(/[^a-z0-9 -]/g, "")
            .replaceAll(" ", "-")}`,
      );
    expect(headings).toContain(anchor);
  }
});

test.each(storages)("%s has the headings of every storage system", name => {
  const headings = page(name)
    .split("\n")
    .filter(line => line.startsWith("## "));
  expect(headings).toEqual(["## Prepare", "## Connection file", "## What it does and does not do", wrong.trim()]);
});

test.each(pages)("%s is linked from the README", name => {
  expect(readFileSync(join(root, "README.md"), "utf8")).toContain(`(examples/${name})`);
});

/** Flags of kubectl, the sidecars and the snapshot controller. */
const foreignFlags = new Set([
  "--server-side",
  "--enable-distributed-snapshotting",
  "--dry-run",
  "--all",
  "--feature-gates",
]);

test.each(pages)("%s names only flags that csimux has", name => {
  const declared = sources.join("\n");
  const flags = [...page(name).matchAll(/csimux [a-z]+[^`\n]*|`--[a-z-]+/g)].flatMap(
    ([text]) => text.match(/--[a-z-]+/g) ?? [],
  );
  for (const flag of new Set(flags.filter(each => !foreignFlags.has(each))))
    expect([flag, declared.includes(flag)]).toEqual([flag, true]);
});

test("pages and alerts are true", () => {
  const logged: string[] = [];
  leveledLog("error", line => logged.push(jsonLine(line))).error("failed");
  const [key = ""] = /"message":"failed"/.exec(logged.join("")) ?? [];
  expect(page("guide/troubleshoot.md")).toContain(key);
  // Deleting claims deletes data, and deleting a namespace deletes everything in it.
  const removal = page("guide/lifecycle.md").split("\n").join(" ");
  expect(removal).toContain("**To remove the driver and keep the data**");
  expect(removal).toContain("The namespace `storage` remains");
  // The README names Nomad only if there is a page about it.
  const readme = readFileSync(join(root, "README.md"), "utf8");
  expect(/nomad/i.test(readme)).toBe(existsSync(join(root, "examples/guide/nomad.md")));
  expect(page("monitoring/alerts.yaml")).toContain("description: Claims for more than that are refused.");
});
