import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import type { Capability } from "../../lib/core/access.ts";
import { callOf, codeOf, isRoot, Lab, writer } from "./lab.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

describe.skipIf(!isRoot)("what is refused", () => {
  test.each<[string, Record<string, string>, string]>([
    ["no protocol", { path: "/" }, "invalid-argument"],
    ["an unknown protocol", { node_attach_driver: "floppy", path: "/x" }, "invalid-argument"],
    [
      "a protocol named like a member of every object",
      { node_attach_driver: "__proto__", path: "/x" },
      "invalid-argument",
    ],
    ["no path", { node_attach_driver: "hostpath" }, "invalid-argument"],
    ["a relative path", { node_attach_driver: "hostpath", path: "etc" }, "invalid-argument"],
    ["the root", { node_attach_driver: "hostpath", path: "/" }, "invalid-argument"],
    ['".." in its path', { node_attach_driver: "hostpath", path: "/tmp/../etc" }, "invalid-argument"],
    ["a missing folder", { node_attach_driver: "hostpath", path: "/no/such/folder" }, "not-found"],
    ["a file", { node_attach_driver: "hostpath", path: "/etc/passwd" }, "failed-precondition"],
    ["a device", { node_attach_driver: "hostpath", path: "/dev/null" }, "failed-precondition"],
  ])("is a volume with %s", async (_, context, code) => {
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe(code);
    expect(await lab.mounted()).toEqual([]);
    expect(await readdir(lab.at("records")).catch(() => [])).toEqual([]);
  });

  test("is a source that is a symbolic link, but not one below a link", async () => {
    await lab.source("a");
    await symlink(lab.at("base", "a"), lab.at("base", "link"));
    await symlink(lab.at("base"), lab.at("other"));
    expect(await codeOf(lab.node().stage(lab.stage("link"), callOf()))).toBe("failed-precondition");
    const context = { node_attach_driver: "hostpath", path: lab.at("other", "a") };
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("ok");
  });

  test("is a source that contains the staging path, or is below it", async () => {
    const context = { node_attach_driver: "hostpath", path: lab.folder };
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("failed-precondition");
    await lab.source("b");
    expect(await codeOf(lab.node().stage(lab.stage("b", { stagingPath: lab.at("base") }), callOf()))).toBe(
      "failed-precondition",
    );
  });

  test("is a volume more than the node takes, but not one that is staged already", async () => {
    for (const id of ["a", "b", "c"]) await lab.source(id);
    const node = lab.node(undefined, undefined, { maxVolumes: 2 });
    const stage = (id: string) => codeOf(node.stage(lab.stage(id), callOf()));
    expect([await stage("a"), await stage("b"), await stage("c"), await stage("a")]).toEqual([
      ...["ok", "ok", "resource-exhausted", "ok"],
    ]);
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(await stage("c")).toBe("ok");
  });

  test("is block access", async () => {
    await lab.source("a");
    const capability: Capability = { ...writer, kind: "block" };
    expect(await codeOf(lab.node().stage(lab.stage("a", { capability }), callOf()))).toBe("failed-precondition");
    await lab.node().stage(lab.stage("a"), callOf());
    expect(await codeOf(lab.node().publish(lab.publish("a", { capability }), callOf()))).toBe("failed-precondition");
  });

  test.each(["", "relative", "/a/../b", "/a\0b", "/a\nb", `/${"x".repeat(5000)}`, "/", "//"])(
    "is the path %j",
    async path => {
      const node = lab.node();
      await lab.source("a");
      expect(await codeOf(node.stage(lab.stage("a", { stagingPath: path }), callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.unstage({ volumeId: "a", stagingPath: path }, callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.publish(lab.publish("a", { targetPath: path }), callOf()))).toBe("invalid-argument");
      expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: path }, callOf()))).toBe("invalid-argument");
      const placed = path === "" ? "invalid-argument" : "not-found";
      expect(await codeOf(node.stats({ volumeId: "a", path }, callOf()))).toBe(placed);
      expect(await codeOf(node.expand({ volumeId: "a", path }, undefined, callOf()))).toBe(placed);
    },
  );

  test("is an empty volume id", async () => {
    const node = lab.node();
    expect(await codeOf(node.stage(lab.stage("a", { volumeId: "" }), callOf()))).toBe("invalid-argument");
    expect(await codeOf(node.stats({ volumeId: "", path: "/a" }, callOf()))).toBe("invalid-argument");
  });

  test("is a publish without a staging path or without a staged volume", async () => {
    await lab.source("a");
    const node = lab.node();
    expect(await codeOf(node.publish(lab.publish("a", { stagingPath: undefined }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
    await node.stage(lab.stage("a"), callOf());
    await lab.source("b");
    await node.stage(lab.stage("b"), callOf());
    const wrong = lab.publish("a", { stagingPath: lab.at("staging", "b") });
    expect(await codeOf(node.publish(wrong, callOf()))).toBe("failed-precondition");
    const inside = lab.publish("a", { targetPath: lab.at("staging", "a", "inner") });
    expect(await codeOf(node.publish(inside, callOf()))).toBe("invalid-argument");
    expect(await lab.mounted()).toEqual(["staging/a", "staging/b"]);
  });

  test("is a target that is a link or a file", async () => {
    await lab.source("a");
    const node = lab.node();
    await node.stage(lab.stage("a"), callOf());
    await mkdir(lab.at("pods", "a"), { recursive: true });
    await mkdir(lab.at("elsewhere"));
    await symlink(lab.at("elsewhere"), lab.at("pods", "a", "mount"));
    expect(await codeOf(node.publish(lab.publish("a"), callOf()))).toBe("failed-precondition");
    await writeFile(lab.at("file"), "");
    expect(await codeOf(node.publish(lab.publish("a", { targetPath: lab.at("file") }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await codeOf(node.publish(lab.publish("a", { targetPath: lab.at("file", "x") }), callOf()))).toBe(
      "failed-precondition",
    );
    expect(await lab.mounted()).toEqual(["staging/a"]);
    expect(await node.stage(lab.stage("a"), callOf())).toBeUndefined();
  });

  test("is expanding or measuring an unmounted volume", async () => {
    await lab.source("a");
    const node = lab.node();
    for (const path of ["some/path", "/", lab.folder, lab.at("staging", "a")]) {
      expect(await codeOf(node.stats({ volumeId: "a", path }, callOf()))).toBe("not-found");
      expect(await codeOf(node.expand({ volumeId: "a", path }, undefined, callOf()))).toBe("not-found");
    }
    await node.stage(lab.stage("a"), callOf());
    expect(await codeOf(node.stats({ volumeId: "b", path: lab.at("staging", "a") }, callOf()))).toBe("not-found");
    expect(await codeOf(node.stats({ volumeId: "a", path: lab.at("staging", "a") }, callOf()))).toBe("ok");
  });
});

describe.skipIf(!isRoot)("a volume with an unusable context", () => {
  const iscsi = { node_attach_driver: "iscsi", iqn: "iqn.2005-10.org.example:a", lun: "0", portal: "10.0.0.1" };
  const nvmeof = {
    node_attach_driver: "nvmeof",
    nqn: "nqn.2005-10.org.example:a",
    nsid: "1",
    transport: "tcp://10.0.0.1",
  };
  const wrong = [
    { ...iscsi, iqn: "../etc" },
    { ...iscsi, lun: "-1" },
    { ...iscsi, portal: "" },
    { ...nvmeof, nqn: "../etc" },
    { ...nvmeof, nsid: "0" },
    { ...nvmeof, transport: "" },
  ];
  const unstage = () => lab.node().unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
  const records = () => readdir(lab.at("records")).catch(() => []);

  test.each(wrong)("leaves no record of its staging, and is unstaged: %j", async context => {
    expect(await codeOf(lab.node().stage(lab.stage("a", { context }), callOf()))).toBe("invalid-argument");
    expect(await records()).toEqual([]);
    expect(await codeOf(unstage())).toBe("ok");
  });

  test.each(wrong)("is unstaged, although there is a record of its staging: %j", async context => {
    await lab
      .node()
      .stage(lab.stage("a", { context: { node_attach_driver: "hostpath", path: await lab.source("a") } }), callOf());
    const [file = ""] = await records();
    await unstage();
    const { node_attach_driver: protocol, ...rest } = context;
    const record = {
      ...{ version: 1, volumeId: "a", stagingPath: lab.at("staging", "a"), protocol, kind: "mount", flags: [] },
      ...{ context: { node_attach_driver: protocol, ...rest }, mode: "single-node-writer", notes: {}, published: [] },
    };
    await writeFile(lab.at("records", file), JSON.stringify(record));
    for (let times = 0; times < 2; times++) expect(await codeOf(unstage())).toBe("ok");
    expect(await records()).toEqual([]);
  });
});
