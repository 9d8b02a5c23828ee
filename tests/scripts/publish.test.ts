import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { goProgram, hasGoProgram } from "../../scripts/cluster/tools.ts";
import { writeArchive } from "../../scripts/image/archive.ts";
import { archiveName, packChart, publish, type Run } from "../../scripts/release/publish.ts";
import { certificateIn, registryCommand } from "../../scripts/release/registry.ts";
import { currentVersion } from "../../scripts/release/version.ts";
import { spawned } from "../../scripts/spawned.ts";
import { freePort } from "../io/ssh/sshd.ts";
import { pause } from "../waiting.ts";

describe.skipIf(!hasGoProgram("crane") || !hasGoProgram("helm"))("a release that is pushed to a registry", () => {
  const address = "127.0.0.1";
  let work = "";
  let registry = "";
  let stop = (): void => {};

  /** Runs a program with a home of its own, so that it has the credentials of no one. */
  const run: Run = async (...argv) => {
    const own = { HOME: work, HELM_CACHE_HOME: work, HELM_CONFIG_HOME: work, HELM_DATA_HOME: work };
    const { code, stdout, stderr } = await spawned(argv, { env: { ...own, SSL_CERT_FILE: certificateIn(work) } });
    if (code !== 0) throw new Error(stderr.trim());
    return stdout;
  };

  beforeAll(async () => {
    work = await mkdtemp(join(tmpdir(), "csimux-publish-test-"));
    const port = await freePort();
    registry = `${address}:${port}`;
    const server = Bun.spawn([...(await registryCommand(work, address, port))], {
      stdout: "inherit",
      stderr: "inherit",
    });
    stop = () => server.kill();
    const tls = { rejectUnauthorized: false };
    while (!(await fetch(`https://${registry}/v2/`, { tls }).catch(() => undefined))?.ok) await pause(20);
  });
  afterAll(async () => {
    stop();
    await rm(work, { recursive: true, force: true });
  });

  test("has an image with the digest of its archive, for each processor, and a chart that names it", async () => {
    const layer = join(work, "layer");
    await mkdir(layer);
    await writeFile(join(layer, "file"), "content\n");
    const version = await currentVersion();
    const image = `${registry}/owner/csimux`;
    const variants = (["amd64", "arm64"] as const).map(architecture => ({ architecture, layers: [layer], config: {} }));
    const digest = await writeArchive(join(work, archiveName(version)), [`localhost/csimux:${version}`], variants);
    await packChart(image, work, run);

    const pushed = await publish(image, version, work, run);
    expect(pushed).toEqual({ digest, chart: `oci://${registry}/owner/charts/csimux` });
    const { manifests } = JSON.parse(await run(goProgram("crane"), "manifest", `${image}:${version}`)) as {
      readonly manifests: readonly { readonly platform: { readonly architecture: string } }[];
    };
    expect(manifests.map(({ platform }) => platform.architecture)).toEqual(["amd64", "arm64"]);
    const values = await run(goProgram("helm"), "show", "values", pushed.chart, "--version", version);
    expect(values).toContain(`\n  repository: ${image}\n`);
  });
});
