import { expect } from "bun:test";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { VolumeCapabilitySchema } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import type { Argv } from "../../lib/io/runner.ts";
import { mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { runSanity } from "../../scripts/sanity/suite.ts";
import type { Tally } from "../../scripts/tally.ts";
import { untilDone, World } from "../serve/world.ts";
import { run } from "./run.ts";

/** Paths of the executable under test and of csi-sanity, where the host could build it. `make test-lab` copies both into the guest. */
export const executable = process.env["CSIMUX"] ?? "/opt/csimux/csimux";
const sanityProgram = process.env["CSI_SANITY"] ?? "/opt/csimux/csi-sanity";

/** How long one call may take, in milliseconds: where the processor is made in software and shared, mkfs alone takes minutes. */
const callMs = 300_000;

/** What csimux of a lab test serves. */
export interface Setting {
  /** The text of each connection file, by the connection's name. */
  readonly connections: Readonly<Record<string, string>>;
  /** Lines that proxy.yaml gets below `proxy:`, each with its indentation. */
  readonly proxy?: readonly string[];
  /** Added to csimux's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Further flags of `serve`. */
  readonly flags?: readonly string[];
  /** The program that gets csimux's arguments; the executable if absent. */
  readonly command?: Argv;
}

/**
 * Starts the compiled csimux, controller and node in one, in a new folder. Time limits are wide: on an emulated processor, a start takes
 * three seconds and a call some tens of milliseconds.
 */
export async function startCsimux(setting: Setting): Promise<World> {
  const sandbox = await settingSandbox(setting);
  return World.on(sandbox, () =>
    startDaemon({
      command: setting.command ?? [executable],
      sandbox,
      env: setting.env ?? {},
      flags: setting.flags ?? [],
      startMs: 240_000,
    }),
  );
}

/** A sandbox with the files of a setting. */
export async function settingSandbox({ connections, proxy = [] }: Setting): Promise<Sandbox> {
  const sandbox = await makeSandbox("off", []);
  for (const [name, text] of Object.entries(connections))
    await writeFile(join(sandbox.connections, `${name}.yaml`), text);
  const lines = ["driver: proxy", "proxy:", `  configFolder: ${sandbox.connections}`, ...proxy, ""];
  await writeFile(sandbox.config, lines.join("\n"));
  return sandbox;
}

/** A volume as CreateVolume answers it. */
export interface Made {
  readonly volumeId: string;
  readonly volumeContext: Readonly<Record<string, string>>;
}

/** How a volume is mounted. */
export interface MountOptions {
  readonly capability?: MessageInitShape<typeof VolumeCapabilitySchema>;
  readonly secrets?: Record<string, string>;
  readonly readonly?: boolean;
  /** Runs a program on csimux's node; here if absent. */
  readonly onNode?: (argv: readonly [string, ...string[]]) => Promise<unknown>;
}

/** kubelet's staging path and target path of a volume. */
export function foldersOf(world: World, { volumeId }: Made): { readonly staging: string; readonly target: string } {
  const key = volumeId.replaceAll(/[^a-z0-9]/gi, "_");
  return {
    staging: join(world.sandbox.folder, `staging-${key}`),
    target: join(world.sandbox.folder, "pods", key, "mount"),
  };
}

/** Stages and publishes a volume like kubelet; returns the target path. */
export async function mountVolume(world: World, volume: Made, options: MountOptions = {}): Promise<string> {
  const { staging, target } = foldersOf(world, volume);
  await (options.onNode ?? run)(["mkdir", "-p", staging]);
  const common = {
    volumeId: volume.volumeId,
    volumeCapability: options.capability ?? mountCapability,
    volumeContext: { ...volume.volumeContext },
    stagingTargetPath: staging,
  };
  await world.node("nodeStageVolume", { ...common, secrets: options.secrets ?? {} }, callMs);
  await world.node("nodePublishVolume", { ...common, targetPath: target, readonly: options.readonly ?? false }, callMs);
  return target;
}

/** Unpublishes and unstages a volume, and retries like kubelet: an abandoned call may still be running. */
export async function unmountVolume(world: World, { volumeId }: Made): Promise<void> {
  const { staging, target } = foldersOf(world, { volumeId, volumeContext: {} });
  await untilDone(() => world.node("nodeUnpublishVolume", { volumeId, targetPath: target }, callMs));
  await untilDone(() => world.node("nodeUnstageVolume", { volumeId, stagingTargetPath: staging }, callMs));
}

/** Passes a mounted volume to `work`, and unmounts it afterwards in any case. */
export async function whileMounted<T>(
  world: World,
  volume: Made,
  work: (path: string) => Promise<T>,
  options: MountOptions = {},
): Promise<T> {
  const path = await mountVolume(world, volume, options);
  try {
    return await work(path);
  } finally {
    await unmountVolume(world, volume);
  }
}

/**
 * Writes like a pod that is not root and has an fsGroup, into a mounted volume with a file "hello": kubelet gives everything the group (Kubernetes
 * 1.36, pkg/volume/volume_linux.go, changeFilePermission), and a process of the group sees the mount without the folders above it. `runAsGroup`:
 * the group is also its primary one, which an NFS server with --manage-gids believes (rpc.mountd(8); Debian's default).
 */
export async function writeWithFsGroup(path: string, runAsGroup = 1000): Promise<void> {
  const change = 'find "$1" -exec chgrp -h 2000 {} + -exec chmod g+rw {} + -type d -exec chmod g+xs {} +';
  await run(["sh", "-c", change, "sh", path]);
  const write =
    'cd "$1" && exec setpriv --reuid=1000 --regid=$2 --groups=2000 sh -c "cat hello >of-the-pod && stat -c %u:%g of-the-pod"';
  expect((await run(["sh", "-c", write, "sh", path, String(runAsGroup)])).trim()).toBe("1000:2000");
}

/** Whether csi-sanity is in the guest; the host builds it with Go. */
export const hasSanity = (): boolean => existsSync(sanityProgram);

/**
 * Runs the CSI conformance suite against a csimux of a lab test, for at most an hour: on an emulated processor, target tools
 * take seconds to start.
 */
export const sanityAgainst = (world: World, parameters: Readonly<Record<string, string>>): Promise<Tally> =>
  runSanity({ program: sanityProgram, ...world.sandbox, parameters, timeoutMs: 3_600_000 });
