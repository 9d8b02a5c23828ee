import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { build } from "../scripts/build.ts";
import { root } from "../scripts/spawned.ts";
import { rehearsal, sections, sectionsFor } from "./quickstart.ts";

const folder = mkdtempSync(join(tmpdir(), "csimux-quickstart-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Programs that only record how they were called, and what they read. */
const recorded = ["kubectl", "kind", "k3s", "make", "curl", "apt-get", "exportfs", "tee", "find"];

beforeAll(async () => {
  mkdirSync(join(folder, "bin"));
  const record = `#!/bin/sh
[ "$(basename "$0")" != kubectl ] || [ "$1" != kustomize ] || { cat my-cluster/central/classes.yaml; exit; }
{ echo "$(basename "$0") $*"; case " $* " in *" - "*|*csimux.exports*) sed 's/^/< /' ;; esac; } >> "$CALLS"
`;
  for (const name of recorded) writeFileSync(join(folder, "bin", name), record);
  writeFileSync(join(folder, "bin/sudo"), '#!/bin/sh\nexec "$@"\n');
  writeFileSync(
    join(folder, "bin/mkdir"),
    '#!/bin/sh\ncase "$*" in *srv/csimux*) ;; *) exec /bin/mkdir "$@" ;; esac\n',
  );
  for (const name of [...recorded, "sudo", "mkdir"]) chmodSync(join(folder, "bin", name), 0o755);
  mkdirSync(join(folder, "dist"));
  cpSync(await build(), join(folder, "dist/csimux"));
  cpSync(join(root, "examples"), join(folder, "examples"), { recursive: true });
});

/** Runs commands as a person who copies them; answers the calls of the recorded programs. */
function played(text: string): string {
  rmSync(join(folder, "my-cluster"), { recursive: true, force: true });
  const calls = join(folder, "calls");
  writeFileSync(calls, "");
  const env = { PATH: `${join(folder, "bin")}:${process.env["PATH"]}`, HOME: folder, CALLS: calls };
  const { status, stderr } = spawnSync("bash", ["-euo", "pipefail", "-c", text], {
    cwd: folder,
    env,
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([0, ""]);
  return readFileSync(calls, "utf8");
}

test("the page has its commands in seven steps, with two ways to a cluster", () => {
  expect(sections().map(({ title }) => title.slice(0, 2))).toEqual(["1.", "2a", "2b", "3.", "4.", "5.", "6.", "7."]);
});

describe.each(["kind", "k3s"] as const)("the commands for %s, run as they are with recording tools", tool => {
  test("make image and cluster, serve the export, and apply the folder whose files they wrote", () => {
    const calls = played(
      sectionsFor(tool)
        .map(({ commands }) => commands)
        .join(""),
    );
    const at = (words: string): number => {
      const index = calls.indexOf(words);
      expect([words, index >= 0]).toEqual([words, true]);
      return index;
    };
    const order = [
      "make image",
      tool === "kind"
        ? "kind load image-archive dist/image/csimux.oci.tar"
        : "k3s ctr images import dist/image/csimux.oci.tar",
      "exportfs -ra",
      "crd?ref=v8.6.0",
      "apply -f my-cluster/namespace.yaml",
      "apply --server-side -k my-cluster/central",
      "wait --for=condition=Ready pod/hello",
      "delete -k my-cluster/central",
    ].map(at);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(calls.includes(tool === "kind" ? "k3s" : "kind load")).toBe(false);
  });
});

test("the commands name only files of the checkout, or that they write", () => {
  const text = sections()
    .map(({ commands }) => commands)
    .join("");
  for (const [path] of text.matchAll(/examples\/[\w/.-]+/g))
    expect([path, existsSync(join(root, path))]).toEqual([path, true]);
  for (const [path] of text.matchAll(/(?<=my-cluster\/)[\w/.-]+/g)) {
    expect([path, existsSync(join(root, "examples/kubernetes", path))]).toEqual([path, true]);
  }
});

test("a rehearsal needs neither registry nor network, and otherwise runs the same commands", () => {
  const text = rehearsal({ podImage: "here/busybox:1", folder: "/var/lib/csimux/data/nas" });
  expect(text).not.toMatch(/https:|kind |k3s|sudo|nfs/);
  played(text);
  const connection = readFileSync(join(folder, "my-cluster/central/connections/nas.yaml"), "utf8");
  expect(parse(connection)).toEqual({
    driver: "local-hostpath",
    "local-hostpath": { shareBasePath: "/var/lib/csimux/data/nas", controllerBasePath: "/var/lib/csimux/data/nas" },
  });
  const { images } = parse(readFileSync(join(folder, "my-cluster/central/kustomization.yaml"), "utf8"));
  expect(images).toEqual([
    { name: "registry.example.org/csimux", newName: "localhost/csimux", newTag: expect.any(String) },
  ]);
  const [claim, pod] = parseAllDocuments(/<<EOF\n(apiVersion[\s\S]*?)^EOF$/m.exec(text)?.[1] ?? "").map(each =>
    each.toJS(),
  );
  expect([claim.kind, claim.spec.storageClassName, pod.spec.containers[0].image]).toEqual([
    "PersistentVolumeClaim",
    "nas",
    "here/busybox:1",
  ]);
  const withNfs = rehearsal({ podImage: "here/busybox:1" });
  expect(withNfs).toContain("driver: nfs-client");
  expect(withNfs).toContain("exportfs -ra");
});
