import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";

const folder = new URL("../examples/nomad/", import.meta.url);
const read = (file: string): string => readFileSync(new URL(file, folder), "utf8");

/** The templates of a job by their destination (Nomad, "template" block). */
const templates = (job: string): ReadonlyMap<string, string> =>
  new Map(
    [...read(job).matchAll(/destination = "([^"]+)"[\s\S]*?<<EOH\n([\s\S]*?)EOH\n/g)].map(([, to = "", text = ""]) => [
      to,
      text,
    ]),
  );

/** The node job runs only on clients that have a zone. */
const intended = "topology-gap";

const problems = (inputs: readonly Input[]): readonly string[] =>
  lint(inputs, {
    modules,
    resolver: { env: () => undefined, file: () => undefined },
    checkEnvironment: false,
  })
    .problems.filter(({ rule }) => rule !== intended)
    .map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);

describe("the job files for Nomad", () => {
  test.each([
    ["controller.nomad.hcl", 3],
    ["node.nomad.hcl", 1],
  ] as const)("%s has valid files", (job, count) => {
    const files = [...templates(job)];
    expect(files).toHaveLength(count);
    const inputs = files.map(
      ([file, text]): Input => ({ file, text, role: file.includes("connections/") ? "connection" : "given" }),
    );
    expect(problems(inputs)).toEqual([]);
    expect(problems(inputs.map(input => ({ ...input, text: input.text.replace("driver:", "drivr:") })))).not.toEqual(
      [],
    );
  });

  test("name the same plugin, driver, topology and connections", () => {
    const files = readdirSync(folder);
    expect(files.sort()).toEqual(["controller.nomad.hcl", "node.nomad.hcl", "register.hcl", "volume.hcl"]);
    for (const file of files)
      expect(/(?:csi_plugin \{\s+id|plugin_id)\s+= "([^"]+)"/.exec(read(file))?.[1]).toBe("csimux");
    for (const job of ["controller.nomad.hcl", "node.nomad.hcl"]) {
      expect(read(job)).toContain('"--name", "csimux.example.org"');
      expect(templates(job).get("local/proxy.yaml")).toContain("prefix: csimux.example.org");
      expect(read(job).match(/\{/g)?.length).toBe(read(job).match(/\}/g)?.length);
    }
    expect(read("volume.hcl")).toContain('"csimux.example.org/zone"');
    const connections = [...templates("controller.nomad.hcl").keys()].filter(file => file.includes("connections"));
    expect(connections.map(file => file.slice(file.lastIndexOf("/") + 1, -5))).toEqual(["nas1", "nas2"]);
    expect(templates("controller.nomad.hcl").get("local/proxy.yaml")).toContain("members: [nas1, nas2]");
    expect(/connection = "(\w+)"/.exec(read("volume.hcl"))?.[1]).toBe("any");
  });
});
