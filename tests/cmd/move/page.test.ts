import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { addCopies } from "../../../cmd/cluster/copies/command.ts";
import { addMove } from "../../../cmd/cluster/move/command.ts";
import { root } from "../../../scripts/spawned.ts";

/** The commands of the page, without comments and with wrapped lines joined. */
const commands = readFileSync(join(root, "examples/guide/move.md"), "utf8")
  .replace(/\n {2,}/g, " ")
  .split("\n")
  .flatMap(line => [...line.matchAll(/^(csimux move .*)$|`(csimux (?:move|copies) [a-z]+ [^`]+)`/g)])
  .map(([, whole, span]) => (whole ?? span ?? "").replace(/ +#.*$/, "").trim());

test("the page of csimux move has its commands", () => {
  expect(commands.length).toBeGreaterThanOrEqual(7);
});

test.each(commands)("%s is a valid command line, which ends because there is no cluster here", async line => {
  const err: string[] = [];
  const host = {
    out: () => {},
    err: (text: string) => void err.push(text),
    stdin: async () => "",
    hostname: "desk",
    colour: false,
    pause: async () => {},
  };
  const program = new Command("csimux").exitOverride();
  const env = { PATH: "/nonexistent", CSI_ENDPOINT: "unix:///nonexistent/csi.sock" };
  addMove(program, { ...host, env });
  addCopies(program, { ...host, env });
  const before = process.exitCode;
  await program.parseAsync(["node", "csimux", ...line.split(/\s+/).slice(1)]);
  const code = process.exitCode;
  process.exitCode = before ?? 0;
  // csimux copies says 2 without a socket, which no wrong usage does.
  const isCopies = line.startsWith("csimux copies");
  expect([code, err.join("")]).toEqual([
    isCopies ? 2 : 1,
    expect.stringContaining(isCopies ? "does not exist" : "install it, or name it with --kubectl"),
  ]);
});
