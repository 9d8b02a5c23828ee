import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { spawned } from "../spawned.ts";

/** A processor as OCI and Debian call it. */
export type Architecture = "amd64" | "arm64";

/** One image for one processor. Layers are folders whose content becomes that of the image, the first one below. */
export interface Variant {
  readonly architecture: Architecture;
  readonly layers: readonly string[];
  /** OCI image configuration, "config": Entrypoint, Env and so on. */
  readonly config: Readonly<Record<string, unknown>>;
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** Every file has this time, so that equal files make equal archives. */
const noTime = "1970-01-01T00:00:00Z";

const media = (kind: string): string => `application/vnd.oci.image.${kind}`;

const sha256 = (bytes: Buffer): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** Writes what is in a folder as a tar archive whose bytes follow from names, modes and contents alone. */
async function tar(folder: string, file: string): Promise<void> {
  const always = ["--sort=name", `--mtime=${noTime}`, "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];
  const { code, stderr } = await spawned(["tar", ...always, "-C", folder, "-cf", file, "."]);
  if (code !== 0) throw new Error(`tar of ${folder} failed: ${stderr.trim()}`);
}

/** The content-addressed files of an image layout (OCI Image Layout Specification). */
class Layout {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async add(kind: string, bytes: Buffer): Promise<Descriptor> {
    const digest = sha256(bytes);
    await writeFile(join(this.#folder, "blobs/sha256", digest.slice("sha256:".length)), bytes);
    return { mediaType: media(kind), digest, size: bytes.length };
  }

  addJson(kind: string, value: unknown): Promise<Descriptor> {
    return this.add(kind, Buffer.from(JSON.stringify(value)));
  }

  /** A folder as a layer, and the digest of its archive before compression. */
  async addLayer(folder: string): Promise<{ readonly layer: Descriptor; readonly diffId: string }> {
    const file = join(this.#folder, "layer.tar");
    await tar(folder, file);
    const bytes = await readFile(file);
    await rm(file);
    return { layer: await this.add("layer.v1.tar+gzip", gzipSync(bytes)), diffId: sha256(bytes) };
  }
}

async function addVariant(layout: Layout, { architecture, layers, config }: Variant) {
  const added = [];
  for (const folder of layers) added.push(await layout.addLayer(folder));
  const described = await layout.addJson("config.v1+json", {
    created: noTime,
    architecture,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: added.map(({ diffId }) => diffId) },
  });
  const manifest = await layout.addJson("manifest.v1+json", {
    schemaVersion: 2,
    mediaType: media("manifest.v1+json"),
    config: described,
    layers: added.map(({ layer }) => layer),
  });
  return { ...manifest, platform: { architecture, os: "linux" } };
}

/**
 * Writes an OCI archive (what `ctr images import`, `podman load` and `skopeo copy oci-archive:` read) with one image under
 * `names`, for all of its processors. The same folders make the same bytes. Answers the digest of the image.
 */
export async function writeArchive(
  file: string,
  names: readonly string[],
  variants: readonly Variant[],
): Promise<string> {
  const work = await mkdtemp(join(tmpdir(), "csimux-image-"));
  try {
    await mkdir(join(work, "blobs/sha256"), { recursive: true });
    const layout = new Layout(work);
    const manifests = [];
    for (const variant of variants) manifests.push(await addVariant(layout, variant));
    const image = await layout.addJson("index.v1+json", {
      schemaVersion: 2,
      mediaType: media("index.v1+json"),
      manifests,
    });
    const named = names.map(name => ({
      ...image,
      annotations: { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.replace(/.*:/, "") },
    }));
    const index = { schemaVersion: 2, mediaType: media("index.v1+json"), manifests: named };
    await writeFile(join(work, "index.json"), JSON.stringify(index));
    await writeFile(join(work, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    await tar(work, `${file}.partial`);
    await rename(`${file}.partial`, file);
    return image.digest;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
