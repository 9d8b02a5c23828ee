import { join } from "node:path";
import { cacheFolder } from "../spawned.ts";

/** The versions of the cluster's parts. Kubernetes' libraries have the same version with 0 for 1. */
export const versions = {
  kubernetes: "1.36.3",
  provisioner: "v6.3.0",
  snapshotter: "v8.6.0",
  resizer: "v2.2.0",
  attacher: "v4.12.0",
  cni: "v1.9.0",
} as const;

/** The images that Kubernetes' own tests start their pods from (test/utils/image/manifest.go of that version). */
export const testImages = {
  agnhost: "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
  /** The last two are a web server and a C library: storage tests use only their shell. */
  shells: ["busybox:1.37.0-1", "nginx:1.15-4", "glibc-dns-testing:2.0.0"].map(
    name => `registry.k8s.io/e2e-test-images/${name}`,
  ),
} as const;

/** The files of the cluster, outside the checkout. The path is short, because it contains sockets (108 bytes, unix(7)). */
export const cache = cacheFolder("csimux-cluster");

/** Slow builds, which are kept. */
export const built = {
  source: join(cache, "build"),
  programs: join(cache, "bin"),
  plugins: join(cache, "bin/cni"),
  crds: join(cache, "crds"),
  images: join(cache, "images"),
} as const;

/** The state of a running cluster; `down` removes it. */
export const state = join(cache, "state");

/** The name of the only node. Some tests derive a zone from it: rack1. */
export const nodeName = "rack1-03";
