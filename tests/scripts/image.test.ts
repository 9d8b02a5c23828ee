import { afterAll, beforeAll, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeArchive } from "../../scripts/image/archive.ts";
import { billOfMaterials } from "../../scripts/image/sbom.ts";

let work = "";
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "csimux-image-test-"));
});
afterAll(() => rm(work, { recursive: true, force: true }));

/** A folder of an image, made in the order of `names`, at `seconds` since 1970. */
async function layer(name: string, names: readonly string[], seconds: number): Promise<string> {
  const folder = join(work, name);
  await mkdir(join(folder, "bin"), { recursive: true });
  for (const file of names) {
    await writeFile(join(folder, "bin", file), `the program ${file}\n`);
    await chmod(join(folder, "bin", file), 0o755);
    await utimes(join(folder, "bin", file), seconds, seconds);
  }
  await symlink("bin", join(folder, "sbin"));
  return folder;
}

const config = { Entrypoint: ["/bin/a"] };

test("an archive of an image follows from names, modes and contents of its files alone", async () => {
  const digests = [];
  for (const [name, names, seconds] of [
    ["one", ["a", "b"], 1_000_000],
    ["two", ["b", "a"], 2_000_000],
  ] as const) {
    const folder = await layer(name, names, seconds);
    const file = join(work, `${name}.tar`);
    await writeArchive(file, ["example.org/a:1"], [{ architecture: "amd64", layers: [folder], config }]);
    digests.push(
      createHash("sha256")
        .update(await readFile(file))
        .digest("hex"),
    );
  }
  expect(digests[1]).toBe(digests[0] ?? "");
  await chmod(join(work, "two/bin/a"), 0o700);
  const file = join(work, "three.tar");
  await writeArchive(file, ["example.org/a:1"], [{ architecture: "amd64", layers: [join(work, "two")], config }]);
  expect(
    createHash("sha256")
      .update(await readFile(file))
      .digest("hex"),
  ).not.toBe(digests[0] ?? "");
});

test("an archive holds one image for each processor, and every blob has the digest of its name", async () => {
  const folder = await layer("blobs", ["a"], 0);
  const file = join(work, "blobs.tar");
  const variants = (["amd64", "arm64"] as const).map(architecture => ({ architecture, layers: [folder], config }));
  const digest = await writeArchive(file, ["example.org/a:1", "example.org/b:1"], variants);
  const out = join(work, "blobs-out");
  await mkdir(out);
  execFileSync("tar", ["-xf", file, "-C", out]);
  const blob = async (of: string) => {
    const bytes = await readFile(join(out, "blobs/sha256", of.replace("sha256:", "")));
    expect(`sha256:${createHash("sha256").update(bytes).digest("hex")}`).toBe(of);
    return JSON.parse(bytes.toString());
  };
  const { manifests } = JSON.parse(await readFile(join(out, "index.json"), "utf8"));
  expect(manifests.map((each: { digest: string }) => each.digest)).toEqual([digest, digest]);
  expect(manifests[1].annotations["io.containerd.image.name"]).toBe("example.org/b:1");
  const index = await blob(digest);
  expect(index.manifests.map((each: { platform: object }) => each.platform)).toEqual([
    { architecture: "amd64", os: "linux" },
    { architecture: "arm64", os: "linux" },
  ]);
  const manifest = await blob(index.manifests[1].digest);
  expect((await blob(manifest.config.digest)).architecture).toBe("arm64");
});

test("the bill of materials names Debian's packages, Bun and what is compiled in, and no tool of the build", async () => {
  const status = join(work, "debian/var/lib/dpkg/status.d");
  await mkdir(status, { recursive: true });
  await writeFile(join(status, "libc6"), "Package: libc6\nVersion: 2.36-9+deb12u9\n");
  const bill = JSON.parse(await billOfMaterials(join(work, "debian"), "arm64", "1.2.3"));
  const urls = bill.packages.map((each: { externalRefs: { referenceLocator: string }[] }) => each.externalRefs[0]);
  const locators = urls.map((each: { referenceLocator: string }) => each.referenceLocator);
  expect(locators).toContain("pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=arm64&distro=debian-12");
  expect(locators.some((each: string) => each.startsWith("pkg:npm/bun@"))).toBe(true);
  expect(locators.some((each: string) => each.startsWith("pkg:npm/%40grpc/grpc-js@"))).toBe(true);
  expect(locators.some((each: string) => each.includes("biome"))).toBe(false);
  expect(bill.relationships).toHaveLength(bill.packages.length);
});
