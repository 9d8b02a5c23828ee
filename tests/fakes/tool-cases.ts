import type { Argv } from "../../lib/io/runner.ts";
import { piped } from "../../lib/io/script.ts";
import type { CaseHost, HostCase } from "./host-cases.ts";

/** Each further command of zfs(8) and zpool(8) that drivers send (lib/drivers/zfs/cli), in the same words. */

const { signal } = new AbortController();

/** The tools of a host: `said` is the exit code and the first line of the complaint, `shown` what is printed. */
function toolsOn({ runner, dataset }: CaseHost) {
  const plain = (text: string): string => text.replaceAll(dataset, "here").trim();
  const run = async (argv: Argv) => await runner.run({ argv, timeoutMs: 120_000 }, signal);
  const at = (name: string): string => `${dataset}/${name}`;
  const said = async (...words: readonly string[]): Promise<string> => {
    const { exitCode, stderr } = await run(["zfs", ...words]);
    return `${exitCode} ${plain(stderr).split("\n")[0] ?? ""}`.trim();
  };
  const shown = async (...words: readonly string[]): Promise<string> => {
    const { exitCode, stdout, stderr } = await run(["zfs", ...words]);
    const lines = plain(stdout).replaceAll("\t", " ").split("\n").join(", ");
    return `${exitCode} ${lines} ${plain(stderr).split("\n")[0] ?? ""}`.trim();
  };
  const sent = async (send: readonly string[], receive: readonly string[]): Promise<string> => {
    const { exitCode, stderr } = await run(piped(["zfs", "send", ...send], ["zfs", "receive", ...receive]));
    return `${exitCode} ${plain(stderr).split("\n")[0] ?? ""}`.trim();
  };
  const values = (properties: string, ...names: readonly string[]) =>
    shown("get", "-Hp", "-o", "name,property,value,source", properties, ...names.map(at));
  return { at, run, said, shown, sent, values };
}

const listed = ["list", "-H", "-o", "name", "-S", "name", "-t", "filesystem,volume,snapshot", "-d"] as const;

export const toolCases: Readonly<Record<string, HostCase>> = {
  "properties of file systems are set, inherited and shown with their sources": async host => {
    const { at, said, values } = toolsOn(host);
    const seen = [
      await said("create", "-o", "csimux:a=1", "-o", "compression=gzip", at("a")),
      await said("create", "-p", at("a/b")),
      await said("create", "-p", at("a/b")),
      await values("csimux:a,compression,readonly,refquota,type,mounted,origin", "a", "a/b"),
      await said("set", "refquota=64M", "csimux:a=2", at("a/b")),
      await values("csimux:a,refquota", "a/b"),
      await said("inherit", "csimux:a", at("a/b")),
      await said("inherit", "csimux:none", at("a/b")),
      await said("inherit", "refquota", at("a/b")),
      await values("csimux:a,csimux:none", "a/b"),
    ];
    for (const change of ["absent=1", "volsize=1M", "refquota=many"])
      seen.push((await said("set", change, at("a"))).replace(/'[^']*'$/, "…"));
    seen.push(await said("set", "csimux:a=1", at("absent")), await values("type", "absent"));
    await said("destroy", at("a/b"));
    await said("destroy", at("a"));
    return seen;
  },

  "volumes have the size that was asked for, and grow by whole blocks": async host => {
    const { at, said, values } = toolsOn(host);
    const seen = [
      await said("create", "-s", "-o", "volblocksize=16384", "-V", "67108864", at("disk")),
      await values("volsize,volblocksize,refreservation,type", "disk"),
      await said("set", "volsize=67108865", at("disk")),
      await said("set", "volsize=134217728", at("disk")),
      await values("volsize", "disk"),
      await said("set", "refquota=1G", at("disk")),
      await said("set", "volblocksize=8192", at("disk")),
      await said("create", at("disk/below")),
    ];
    await said("destroy", at("disk"));
    return seen;
  },

  "several snapshots are taken together or not at all, and listed backwards": async host => {
    const { at, said, shown, values } = toolsOn(host);
    for (const name of ["a", "b"]) await said("create", at(name));
    const seen = [
      await said("snapshot", "-o", "csimux:s=1", `${at("a")}@x`, `${at("b")}@x`),
      await said("snapshot", `${at("a")}@x`, `${at("b")}@y`),
      await said("snapshot", `${at("a")}@y`, `${at("a")}@z`),
      await said("snapshot", `${at("a")}@z`, `${at("absent")}@z`),
      await said("snapshot", `${at("a")}@y`),
      await shown(...listed, "1", at("a")),
      await shown(...listed, "1", at("b")),
      await values("csimux:s,type,userrefs,defer_destroy,clones", "a@x"),
      await said("set", "csimux:s=2", `${at("a")}@x`),
      await said("set", "readonly=on", `${at("a")}@x`),
      await shown(...listed, "1", at("absent")),
      await shown("get", "-Hp", "-d", "1", "-t", "snapshot", "-o", "name,value", "csimux:s", at("a")),
    ];
    for (const name of ["a@x", "a@y", "b@x", "a", "b"]) await said("destroy", at(name));
    return seen;
  },

  "holds have names, each once for a snapshot": async host => {
    const { at, said, shown } = toolsOn(host);
    await said("create", at("a"));
    await said("snapshot", `${at("a")}@s`);
    const held = async () => (await shown("holds", "-H", `${at("a")}@s`)).split(" ").slice(0, 3).join(" ");
    const seen = [
      await said("hold", "csimux-one", `${at("a")}@s`),
      await said("hold", "csimux-one", `${at("a")}@s`),
      await held(),
      await said("hold", "csimux-one", `${at("a")}@absent`),
      await said("release", "csimux-one", `${at("a")}@absent`),
      await said("release", "csimux-two", `${at("a")}@s`),
      await said("release", "csimux-one", `${at("a")}@s`),
      await held(),
    ];
    await said("destroy", `${at("a")}@s`);
    await said("destroy", at("a"));
    return seen;
  },

  "clones have an origin until they are promoted": async host => {
    const { at, said, shown, values } = toolsOn(host);
    await said("create", at("a"));
    await said("snapshot", `${at("a")}@s`);
    const seen = [
      await said("clone", "-o", "csimux:c=1", `${at("a")}@s`, at("copy")),
      await said("clone", `${at("a")}@s`, at("copy")),
      await said("clone", `${at("a")}@absent`, at("other")),
      await said("clone", `${at("a")}@s`, at("absent/other")),
      await values("origin,csimux:c", "copy"),
      await values("clones", "a@s"),
      await said("promote", at("a")),
      await said("promote", at("copy")),
      await values("origin", "a", "copy"),
      await shown(...listed, "1", at("copy")),
      await said("rename", at("a"), at("b")),
      await said("rename", at("b"), at("absent/b")),
      await said("rename", at("absent"), at("c")),
      await said("rename", `${at("copy")}@s`, `${at("copy")}@t`),
      await values("origin", "b"),
    ];
    for (const name of ["b", "copy@t", "copy"]) await said("destroy", at(name));
    return seen;
  },

  "a stream makes a dataset, continues only what fits, and leaves no token where it ended": async host => {
    const { at, said, shown, sent, values } = toolsOn(host);
    await said("create", at("a"));
    for (const name of ["s", "t"]) await said("snapshot", `${at("a")}@${name}`);
    const seen = [
      await sent([`${at("a")}@s`], ["-u", "-s", "-o", "csimux:r=1", at("b")]),
      await values("csimux:r,mounted,receive_resume_token", "b"),
      (await sent([`${at("a")}@s`], ["-u", "-s", at("b")])).slice(0, 1),
      await sent(["-i", "@s", `${at("a")}@t`], ["-u", "-s", "-F", `${at("b")}@t`]),
      await shown(...listed, "1", at("b")),
      (await said("send", `${at("a")}@absent`)).slice(0, 1),
      (await said("send", "-t", "1-broken")).slice(0, 1),
      (await said("receive", "-A", at("b"))).slice(0, 1),
      await said("receive", "-A", at("absent")),
    ];
    for (const name of ["b@s", "b@t", "b", "a@s", "a@t", "a"]) await said("destroy", at(name));
    return seen;
  },

  "a file system is mounted or not, and shared only if it has a property for that": async host => {
    const { at, said, values } = toolsOn(host);
    const seen = [
      await said("create", at("a")),
      await said("mount", at("a")),
      await said("unmount", at("a")),
      await said("unmount", at("a")),
      await values("mounted", "a"),
      await said("mount", at("a")),
      (await said("share", at("a"))).replace(/ .*/, ""),
      await said("mount", at("absent")),
      await said("set", "mountpoint=legacy", at("a")),
      (await said("mount", at("a"))).replace(/;.*/, ""),
      await values("mounted", "a"),
    ];
    await said("destroy", at("a"));
    return seen;
  },

  "pools are listed with their state, and the tools have a version": async host => {
    const { run } = toolsOn(host);
    const pools = await run(["zpool", "list", "-H", "-o", "name,health", "tank"]);
    const absent = await run(["zpool", "list", "-H", "-o", "name,health", "absent"]);
    const version = await run(["zfs", "version"]);
    return [
      `${pools.exitCode} ${pools.stdout.trim().replace("\t", " ")}`,
      `${absent.stdout.trim()}`,
      `${version.exitCode} ${/^zfs-[0-9]+\.[0-9]+\.\S+\nzfs-kmod-[0-9]+\.[0-9]+\.\S+$/.test(version.stdout.trim())}`,
    ];
  },
};
