import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const dockerfile = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");
const guard = /^RUN (case .*)$/m.exec(dockerfile)?.[1] ?? "";

/** The first bytes of an executable, with the processor at its place (ELF-64 Object File Format, e_machine). */
const elf = (machine: number): Buffer =>
  Buffer.concat([Buffer.from("\x7fELF"), Buffer.alloc(14), Buffer.from([machine, 0])]);

test.each([
  ["amd64", 0x3e, 0],
  ["amd64", 0xb7, 1],
  ["arm64", 0xb7, 0],
  ["arm64", 0x3e, 1],
] as const)(
  "the Dockerfile for %s takes an executable for the processor 0x%x: exit code %i",
  (architecture, machine, code) => {
    const folder = mkdtempSync(join(tmpdir(), "csimux-dockerfile-"));
    try {
      writeFileSync(join(folder, "csimux"), elf(machine));
      const script = guard.replaceAll("/csimux |", `${folder}/csimux |`);
      const { status } = spawnSync("sh", ["-c", script], { env: { ...process.env, TARGETARCH: architecture } });
      expect(status).toBe(code);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
