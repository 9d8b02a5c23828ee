import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../../scripts/spawned.ts";
import { volumes } from "./volumes-run.ts";

/** The commands of the page, without comments, redirections and what precedes them. */
const commands = readFileSync(join(root, "examples/guide/volumes.md"), "utf8")
  .split("\n")
  .flatMap(line => /^[^`#|]*\bcsimux volumes\b([^#>`]*)/.exec(line)?.[1]?.trim() ?? [])
  .map(words => words.split(/\s+/).filter(word => word !== ""));

test("the page of csimux volumes has its commands", () => {
  expect(commands.length).toBeGreaterThanOrEqual(10);
  expect(commands.filter(words => words.includes("--all"))).toHaveLength(1);
});

test.each(commands)(
  "csimux volumes %s %s %s %s is a valid command line, which ends because nothing is here",
  async (...words) => {
    // The plugin and a pipe give the list.
    const { err } = await volumes("{}", ...words, "--endpoint", "unix:///nonexistent/csi.sock");
    expect(err).toMatch(
      /^csimux: (?:give the main file with --config|pvs\.json cannot be read|the main file proxy\.yaml cannot be read|--pvs is missing)/,
    );
  },
);
