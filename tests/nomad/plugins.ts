import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Client, clientNames, executable, images, onClient, store } from "../../scripts/nomad/place.ts";
import { api, eventually, jobs, run, stop } from "./nomad.ts";

/** What a plugin job is (csi_plugin, type). */
export type Kind = "controller" | "node" | "monolith";

/** A plugin of Nomad that is csimux. */
export interface Plugin {
  readonly job: string;
  readonly id: string;
  readonly kind: Kind;
  /** csimux's arguments, after which nothing is added. */
  readonly args: readonly string[];
  /** The task's files by destination, as Nomad renders templates. */
  readonly files: Readonly<Record<string, string>>;
  /** In a container of csimux's image, or as a process of the client. */
  readonly runs: "docker" | "raw_exec";
  /** The client; every client if absent, or any for a controller. */
  readonly client?: Client;
  /** The type of the job: a service for a controller, unless a drain of its client must not stop it. */
  readonly type?: "system";
  /** Folders of the client in a container; "mount_dir" of the plugin, if it is not /csi. */
  readonly folders?: readonly string[];
  readonly mountDir?: string;
}

/** The node's facts in the environment of each plugin. */
const environment = 'CSI_NODE_ID = "${node.unique.name}"\n        NODE_ZONE = "${meta.zone}"';

const template = ([destination, text]: readonly [string, string]): string => `
      template {
        destination = "${destination}"
        change_mode = "${destination.includes("connections/") ? "noop" : "restart"}"
        data        = <<EOH
${text}EOH
      }`;

/**
 * What a privileged container gets where the machine may give it: Docker's "privileged" requires all capabilities, which a
 * machine in a sandbox lacks.
 */
export const privileges = `cap_add      = ["sys_admin", "dac_read_search"]
        security_opt = ["seccomp=unconfined", "apparmor=unconfined"]`;

const bind = (folder: string): string => `
        mount {
          type   = "bind"
          source = "${folder}"
          target = "${folder}"
          bind_options {
            propagation = "rshared"
          }
        }`;

const container = ({ args, folders = [onClient.store] }: Plugin): string => `
        image        = "${images.csimux}"
        force_pull   = false
        network_mode = "host"
        ipc_mode     = "host"
        ${privileges}
        args         = ${JSON.stringify(args)}${folders.map(bind).join("")}`;

const ofHost = ({ args }: Plugin): string => `
        command = "${executable}"
        args    = ${JSON.stringify(args)}`;

/** The folder of a plugin on its client, which csimux sees there if it is not in a container. */
const pluginFolder = (kind: Kind, id: string): string => `${onClient.data}/client/csi/${kind}/${id}`;

/** The text of a plugin's job. */
export const pluginJob = (plugin: Plugin): string => {
  const { job, id, kind, runs, client, mountDir = "/csi" } = plugin;
  const type = plugin.type ?? (kind === "controller" ? "service" : "system");
  const base =
    runs === "raw_exec" && kind !== "controller" ? `stage_publish_base_dir = "${pluginFolder(kind, id)}"` : "";
  const where = client && `constraint {\n    attribute = "\${node.unique.name}"\n    value = "${client}"\n  }`;
  return `job "${job}" {
  type     = "${type}"
  priority = 80
  ${where ?? ""}
  group "g" {
    restart {
      attempts = 100
      delay    = "1s"
      interval = "1h"
    }
    task "csimux" {
      driver       = "${runs}"
      kill_timeout = "25s"
      env {
        ${environment}
      }
      config {${runs === "docker" ? container(plugin) : ofHost(plugin)}
      }${Object.entries(plugin.files).map(template).join("")}
      csi_plugin {
        id             = "${id}"
        type           = "${kind}"
        mount_dir      = "${mountDir}"
        health_timeout = "60s"
        ${base}
      }
      resources {
        cpu    = 50
        memory = 256
      }
    }
  }
}
`;
};

interface PluginInfo {
  readonly ControllersHealthy: number;
  readonly NodesHealthy: number;
}

/** Waits until Nomad counts these healthy parts of a plugin. */
export const healthy = (id: string, controllers: number, nodes: number): Promise<boolean> =>
  eventually(`${controllers} controllers and ${nodes} nodes of ${id} are healthy`, async () => {
    const info = await api<PluginInfo>(`/v1/plugin/csi/${id}`);
    return info?.ControllersHealthy === controllers && info.NodesHealthy === nodes;
  });

/** A local-hostpath connection in the shared folder. */
export const folderConnection = (name: string, zone?: string): string =>
  [
    "driver: local-hostpath",
    "local-hostpath:",
    `  shareBasePath: ${onClient.store}/${name}`,
    `  controllerBasePath: ${onClient.store}/${name}`,
    '  dirPermissionsMode: "0777"',
    ...(zone === undefined
      ? []
      : ["proxy:", "  perDriver:", "    topology:", "      - requirements:", `          zone: ${zone}`]),
    "",
  ].join("\n");

/** The driver's name of the tests, and the topology key that follows from it. */
const driver = "csimux.test";
export const zoneKey = `${driver}/zone`;

const mainFile = (folder: string | undefined): string =>
  [
    "driver: proxy",
    "proxy:",
    ...(folder === undefined ? [] : [`  configFolder: ${folder}`, "  listing: partial"]),
    "  nodeTopology:",
    "    type: zone",
    `    prefix: ${driver}`,
    "    fromRegexp:",
    "      - topologyKey: zone",
    "        source: env",
    "        envName: NODE_ZONE",
    ...(folder === undefined ? [] : ["  groups:", "    pair:", "      members: [a, b]", "      policy: most-free"]),
    "",
  ].join("\n");

/** Connections that every test of a central deployment has: one for each zone, and one for all. */
const central = { a: "z1", b: "z2", anywhere: undefined } as const;

const secrets = '{{ env "NOMAD_SECRETS_DIR" }}/connections';

const connectionFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(central).map(([name, zone]) => [`secrets/connections/${name}.yaml`, folderConnection(name, zone)]),
  );

/** The folder of csimux's records on a client, for a plugin that is a process of the client. */
export const recordsOf = (job: string): string => `${onClient.own}/records/${job}`;

const serve = (job: string, mode: string): readonly string[] => [
  ...["serve", "--name", driver, "--mode", mode, "--config", "${NOMAD_TASK_DIR}/proxy.yaml", "--log-level", "debug"],
  ...(mode === "controller" ? [] : ["--state-dir", recordsOf(job)]),
];

const controller: Plugin = {
  job: "csimux-controller",
  id: "csimux",
  kind: "controller",
  runs: "raw_exec",
  args: serve("csimux-controller", "controller"),
  files: { "local/proxy.yaml": mainFile(secrets), ...connectionFiles() },
};
const node: Plugin = {
  job: "csimux-node",
  id: "csimux",
  kind: "node",
  runs: "raw_exec",
  args: serve("csimux-node", "node"),
  files: { "local/proxy.yaml": mainFile(undefined) },
};

const pinned = "csimux-controller-n1";

/** Ends the plugins of `startCentral`, and whatever replaced them. */
export const stopCentral = async (): Promise<void> => stop(...(await jobs()).filter(job => job.startsWith("csimux")));

/** Starts a controller on `n1` and a node plugin on each client, as processes of the clients. */
export async function startCentral(): Promise<void> {
  for (const name of Object.keys(central)) await mkdir(join(store, name), { recursive: true });
  await run(pluginJob({ ...controller, job: pinned, type: "system", client: "n1" }));
  await run(pluginJob(node));
  await healthy("csimux", 1, clientNames.length);
}

/** Replaces the controller of `startCentral` by one that runs on any client. */
export async function freeController(): Promise<void> {
  await stop(pinned);
  await healthy("csimux", 0, clientNames.length);
  await run(pluginJob(controller));
  await healthy("csimux", 1, clientNames.length);
}

/** The job of the node plugin of `startCentral`. */
export const centralNode = pluginJob(node);
