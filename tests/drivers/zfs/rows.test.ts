import { expect, test } from "bun:test";
import { entriesOf } from "../../../lib/drivers/zfs/cli/answers.ts";
import { permissionSteps } from "../../../lib/drivers/zfs/cli/steps.ts";
import { localRunner } from "../../../lib/io/local.ts";

const properties = ["type", "guid", "democratic-csi:csi_snapshot_name"];
const names = ["tank/v", "tank/v@a", "tank/v@b"];
const rows = names.flatMap(name => properties.map(property => `${name}\t${property}\tx\tlocal`));
const text = (lines: readonly string[]): string => lines.map(line => `${line}\n`).join("");

test("a complete answer has every property of every name", () => {
  const entries = entriesOf(text(rows), properties);
  expect(entries.map(({ name, properties: all }) => [name, [...all.keys()]])).toEqual(
    names.map(name => [name, properties]),
  );
});

test("an answer that lost, repeated or exchanged any row is refused", () => {
  for (const [at, row] of rows.entries()) {
    const [before, after] = [rows.slice(0, at), rows.slice(at + 1)];
    expect(() => entriesOf(text([...before, ...after]), properties)).toThrow("is not complete");
    expect(() => entriesOf(text([...before, row, row, ...after]), properties)).toThrow("is not complete");
    const [next, ...rest] = after;
    if (next !== undefined)
      expect(() => entriesOf(text([...before, next, row, ...rest]), properties)).toThrow("is not complete");
  }
});

test("an answer that ends within a line is refused", () => {
  const whole = text(rows);
  for (let at = 1; at < whole.length; at++)
    if (whole[at - 1] !== "\n") expect(() => entriesOf(whole.slice(0, at), properties)).toThrow("is not complete");
});

test("permissions apply to the mount point of a dataset, never to a folder above it, wherever the answer about it is cut", async () => {
  const rows = "tank/v/a\tmounted\tyes\t-\ntank/v/a\tmountpoint\t/mnt/tank/v/a\tinherited from tank\n";
  const words = { zfs: ["zfs"], zpool: "zpool", privileged: ["echo"] } as const;
  const permissions = { mode: "0770", user: "1000", group: undefined, acls: [], aclsProgram: "setfacl" };
  const [step] = permissionSteps(words, "tank/v/a", permissions, undefined);
  if (!step) throw new Error("there is no step");
  const runner = localRunner({ env: { PATH: "/usr/bin:/bin" } });
  const said = async (look: string) => {
    const [program, ...rest] = step.argv;
    const argv = [program, ...rest.map(word => (typeof word === "string" ? word : look.replace(/\n+$/, "")))] as const;
    return runner.run({ argv }, AbortSignal.timeout(60_000));
  };
  const whole = "chown 1000 /mnt/tank/v/a\nchmod 0770 /mnt/tank/v/a\n";
  expect((await said(rows)).stdout).toBe(whole);
  for (let at = 0; at < rows.length; at++) expect(["", whole]).toContain((await said(rows.slice(0, at))).stdout);
  expect((await said(rows.slice(0, rows.indexOf("/mnt") + 4))).stderr).toBe("the mountpoint of tank/v/a is cut\n");
});
