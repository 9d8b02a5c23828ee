import { homedir } from "node:os";
import { join } from "node:path";

/** What the cluster is made of. Kubernetes' own libraries have the same version with 0 for 1. */
export const versions = {
  kubernetes: "1.36.3",
  provisioner: "v6.3.0",
  snapshotter: "v8.6.0",
  resizer: "v2.2.0",
  cni: "v1.9.0",
} as const;

/** Everything of the cluster, outside every checkout. The path is short, because sockets lie below it (108 bytes, unix(7)). */
export const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "csimux-cluster");

/** What takes long to make and is kept. */
export const built = {
  source: join(cache, "build"),
  programs: join(cache, "bin"),
  plugins: join(cache, "bin/cni"),
  crds: join(cache, "crds"),
  images: join(cache, "images"),
} as const;

/** What a running cluster writes; `down` removes it. */
export const state = join(cache, "state");

/** The name of the one node. Zones are made from it in some tests, so it has one: rack1. */
export const nodeName = "rack1-03";
