import type { Log } from "../../lib/core/call.ts";
import { controllerService } from "../../lib/csi/controller.ts";
import { type Endpoint, parseEndpoint } from "../../lib/csi/endpoint.ts";
import { groupControllerService } from "../../lib/csi/group-controller.ts";
import { identityService } from "../../lib/csi/identity.ts";
import { type CallObservation, instrument } from "../../lib/csi/instrument.ts";
import { type NodeServiceParts, nodeService } from "../../lib/csi/node.ts";
import { GrpcServer } from "../../lib/csi/server.ts";
import { Controller, GroupController, Identity, Node, SnapshotMetadata } from "../../lib/csi/services.ts";
import { snapshotMetadataService } from "../../lib/csi/snapshot-metadata.ts";
import type { MainFile } from "../../lib/daemon/main-file.ts";
import { commit, version } from "../version.ts";
import { type Alias, aliasSocket, ownSocket, unprefixed } from "./aliases.ts";
import type { openController } from "./controller.ts";
import type { Observation } from "./observation.ts";
import type { ServeOptions } from "./options.ts";

/** Largest request in bytes; CSI's own limits keep valid ones far below it. */
const maxRequestBytes = 4 << 20;

/** A driver name that is served, and its endpoints. */
export interface DriverEndpoint {
  readonly name: string;
  readonly server: GrpcServer;
  readonly endpoints: readonly Endpoint[];
}

/** The parts of the process that are served. */
interface ServedParts {
  readonly main: MainFile;
  readonly node: { readonly parts: Omit<NodeServiceParts, "version"> };
  readonly controller: ReturnType<typeof openController>;
}

/** Opens one per alias, then the main one last: once that is open, all are. */
export function driverEndpoints(
  options: ServeOptions,
  halves: ServedParts,
  observers: Observation,
  log: Log,
): readonly DriverEndpoint[] {
  const watched = { log, verbose: options.logLevel === "debug", calls: observers.calls };
  const main = new GrpcServer({ maxRequestBytes });
  mountServices(main, options, halves, watched);
  const aliases = options.aliases.map((alias): DriverEndpoint => {
    const { name, connection } = alias;
    const server = new GrpcServer({ maxRequestBytes });
    const watch = { ...watched, log: log.with({ driver: name }), calls: observers.callsFor(connection) };
    mountServices(server, { ...options, name }, scopedTo(alias, halves), watch);
    const path = aliasSocket(ownSocket(options.endpoints) ?? "", alias);
    return { name, server, endpoints: [{ kind: "unix", path }] };
  });
  return [...aliases, { name: options.name, server: main, endpoints: options.endpoints.map(parseEndpoint) }];
}

/** The parts of the services under one driver name. */
type ScopedParts = Omit<ServedParts, "controller"> & { readonly controller: Pick<ServedParts["controller"], "parts"> };

/** The same for an alias: only its connection, with ids without prefix. */
const scopedTo = ({ connection }: Alias, { main, node: { parts }, controller }: ServedParts): ScopedParts => ({
  main,
  node: { parts: { ...parts, volumes: unprefixed(parts.volumes, connection) } },
  controller: { parts: controller.scopedTo(connection) },
});

/** Mounts the services of the modes; `watched` observes each of their calls. */
function mountServices(
  server: GrpcServer,
  { name, modes, csiVersion }: ServeOptions,
  { main, node, controller }: ScopedParts,
  watched: CallObservation,
): void {
  const { parts } = controller;
  const topology = main.config.nodeTopology !== undefined;
  const identity = identityService({ name, version, commit, topology, csiVersion });
  server.mount(Identity, instrument(Identity, identity, watched));
  if (modes.has("controller")) {
    const service = controllerService({ ...parts, version: csiVersion });
    server.mount(Controller, instrument(Controller, service, watched));
    const groupService = groupControllerService({ groupSnapshots: parts.groupSnapshots, version: csiVersion });
    server.mount(GroupController, instrument(GroupController, groupService, watched));
    server.mount(SnapshotMetadata, instrument(SnapshotMetadata, snapshotMetadataService(parts), watched));
  }
  if (modes.has("node"))
    server.mount(Node, instrument(Node, nodeService({ ...node.parts, version: csiVersion }), watched));
}
