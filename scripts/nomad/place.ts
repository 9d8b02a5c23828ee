import { join } from "node:path";
import { cacheFolder } from "../spawned.ts";

/** Nomad's version, and that of its API's module, which is published as commits only: the commit of this version. */
export const versions = { nomad: "v1.11.3", api: "v0.0.0-20260324203407-b27b0c2e019a" } as const;

/** The files of Nomad's machine, outside the checkout. */
export const cache = cacheFolder("csimux-nomad");

/** The folder in which Nomad is compiled, and the program of this version. */
export const built = { source: join(cache, "build"), nomad: join(cache, `nomad-${versions.nomad}`) } as const;

/** The state of a running machine; `down` removes it. */
export const state = join(cache, "state");

/** The clients of the server, by name, with the zone of each. */
const clients = { n1: "z1", n2: "z2" } as const;

/** The name of a client. */
export type Client = keyof typeof clients;

/** The names of all clients. */
export const clientNames = Object.keys(clients) as readonly Client[];

/** Folders as both clients see them. */
export const onClient = {
  /** The folder of the client itself, like a local disk. */
  own: "/run/nomad",
  /** The folder that all clients share, like a NAS. */
  store: "/run/store",
  /** The data_dir of Nomad. */
  data: "/run/nomad/data",
} as const;

/** The shared folder on this machine. */
export const store = join(state, "store");

/** The folder of a client on this machine. */
export const folderOf = (client: Client): string => join(state, client);

/** csimux for raw_exec tasks; the path is the same on this machine and on the clients. */
export const executable = join(state, "csimux");

/** The images of the machine, in each client's Docker. */
export const images = { csimux: "csimux.test/csimux:1", shell: "csimux.test/busybox:1" } as const;
